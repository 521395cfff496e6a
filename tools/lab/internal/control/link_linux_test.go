package control

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestLink(t *testing.T) {
	ln, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	name := ln.Addr().String()
	if _, err := os.Stat(strings.TrimPrefix(name, "@")); err == nil {
		t.Errorf("%s is a file", name)
	}
	process, err := Dial(name)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	if !IsOurs(conn) {
		t.Error("a process of our own is taken for somebody else's")
	}
	coordinator := NewLink(conn)
	start := time.Now().Round(0)
	for _, m := range []Message{
		{Hello: &Hello{Role: Client, Index: 3, PID: 4}},
		{Run: &Run{Mode: Rate, Start: start, Duration: time.Second, PerSec: 1.5}},
		{Done: &Done{Completed: 1 << 40, Latencies: []byte{0, 1, 255}}},
		{Stop: &Stop{}},
	} {
		if err := process.Send(m); err != nil {
			t.Fatal(err)
		}
		got, err := coordinator.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Hello != nil && *got.Hello == *m.Hello:
		case m.Run != nil && got.Run.Start.Equal(start) && got.Run.PerSec == 1.5:
		case m.Done != nil && got.Done.Completed == 1<<40 && string(got.Done.Latencies) == string(m.Done.Latencies):
		case m.Stop != nil && got.Stop != nil:
		default:
			t.Errorf("sent %+v, got %+v", m, got)
		}
	}
	_ = process.Close()
	if _, err := coordinator.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if again, err := Listen(); err != nil || again.Addr().String() == name {
		t.Errorf("two coordinators have one address: %v", err)
	} else {
		_ = again.Close()
	}
	if _, err := Dial("@sluice-lab-nobody"); err == nil {
		t.Error("nobody has answered")
	}
}
