package wrk

import (
	"bufio"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	r, err := parse("Running 1s test\n  stuff\n\nRESULT 1000 1000500 1 2 3 4 5 300 750 9000\n")
	want := Result{
		Requests: 1000, Duration: 1000500 * time.Microsecond,
		Errors: Errors{Connect: 1, Read: 2, Write: 3, Timeout: 4, Status: 5},
		P50:    300 * time.Microsecond, P99: 750 * time.Microsecond, Max: 9 * time.Millisecond,
	}
	if err != nil || r != want {
		t.Errorf("parse = %+v, %v", r, err)
	}
	for _, bad := range []string{
		"", "unable to connect\n", "\nRESULT 1 2\n", "\nRESULT many 1 0 0 0 0 0 1 1 1\n",
		"\nRESULT 0 1000 0 0 0 0 0 0 0 0\n", "\nRESULT 5 0 0 0 0 0 0 1 1 1\n",
	} {
		if r, err := parse(bad); err == nil {
			t.Errorf("parse(%q) = %+v without an error", bad, r)
		}
	}
}

func TestErrors(t *testing.T) {
	e := Errors{}.Add(Errors{Read: 2, Status: 1}).Add(Errors{Read: 1})
	if e.Sum() != 4 || e.String() != "3 read, 1 status" {
		t.Errorf("%d errors: %s", e.Sum(), e)
	}
	if none := (Errors{}).String(); none != "0" {
		t.Errorf("no errors: %q", none)
	}
}

// What goes over the wire is what the table of cases says.
func TestLoads(t *testing.T) {
	for _, tool := range []string{"wrk", "taskset"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	runner, err := NewRunner(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runner.Close() })
	for _, c := range []struct {
		name        string
		load        Load
		fields      int
		least, most int // bytes of a head
		saysClose   bool
	}{
		{name: "small", load: Load{Conns: 1}, fields: 3, least: 150, most: 250},
		{name: "browser", load: Load{Conns: 1, Browser: true}, fields: 12, least: 670, most: 685},
		{name: "close", load: Load{Conns: 1, Close: true}, fields: 4, least: 150, most: 250, saysClose: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			head, result := capture(t, runner, c.load)
			fields := strings.Count(head, "\r\n") - 2
			if fields != c.fields || len(head) < c.least || len(head) > c.most || strings.Contains(head, "Connection: close") != c.saysClose {
				t.Errorf("%d fields, %d bytes:\n%s", fields, len(head), head)
			}
			if result.Requests == 0 || result.P99 == 0 || result.Max < result.P99 {
				t.Errorf("result %+v", result)
			}
		})
	}
}

// capture runs wrk for a second and returns the first head that it sent.
func capture(t *testing.T, runner *Runner, load Load) (head string, result Result) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	heads := make(chan string, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go answer(c, heads)
		}
	}()
	if result, err = runner.Run(t.Context(), load, ln.Addr().String(), time.Second); err != nil {
		t.Fatal(err)
	}
	return <-heads, result
}

func answer(c net.Conn, heads chan<- string) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		var head strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
		}
		select {
		case heads <- head.String():
		default:
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if strings.Contains(head.String(), "Connection: close") {
			return
		}
	}
}
