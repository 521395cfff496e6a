package main

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/fasthttputil"
)

func TestParseFlags(t *testing.T) {
	o, err := parseFlags([]string{"-case", "TCP", "-cpu", "1,4", "-rounds", "3", "-turn", "5ms"})
	if err != nil || !slices.Equal(o.cpus, []int{1, 4}) || o.rounds != 3 || o.turn != 5*time.Millisecond || !o.cases.MatchString("GetEndToEnd1TCP, raw") {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-case", "("}, {"-cpu", "0"}, {"-cpu", "two"}, {"-rounds", "0"}, {"-turn", "1us"}, {"stray"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	o, _ = parseFlags([]string{"-case", "no such case"})
	if _, err := newCases(o); err == nil {
		t.Error("no cases, no error")
	}
}

// TestMeasure runs a case of each kind, short.
func TestMeasure(t *testing.T) {
	for _, name := range []string{"^DoFastServer", "d1TCP, raw", "d1TCP, own", "d10Inmemory, raw", "d10Inmemory, own", "PipelineClient10$|PipelineClient10,"} {
		o, err := parseFlags([]string{"-case", name, "-cpu", "2", "-rounds", "2", "-turn", "1ms"})
		if err != nil {
			t.Fatal(err)
		}
		cases, err := newCases(o)
		if err != nil || len(cases) != 1 {
			t.Fatalf("%s: %d cases, %v", name, len(cases), err)
		}
		c := cases[0]
		if err := measure(t.Context(), c, o, ""); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sections := document(o, cases).Sections
		if len(sections) != 2 || len(sections[0].Rows) != len(c.makers) {
			t.Fatalf("%s: %+v", name, sections)
		}
		for i, row := range sections[0].Rows {
			if len(row) != len(sections[0].Head) || row[3] != c.makers[i].name || row[4] == "0" {
				t.Errorf("%s: row %q", name, row)
			}
		}
	}
}

// TestVerdicts checks what is made of known samples.
func TestVerdicts(t *testing.T) {
	inMemory := &benchCase{procs: 1, scenario: scenario{title: "Quick", makers: getMakers()}, samples: map[string][]sample{
		sluiceName:   {{70, 60, 0, 1}, {140, 120, 0.01, 1}, {70, 60, 0, 1}},
		fasthttpName: {{100, 100, 0, 1}, {200, 200, 0, 1}, {100, 100, 0, 1}},
	}}
	overTCP := &benchCase{procs: 1, scenario: scenario{title: "Slow", server: serverRaw, isTCP: true, makers: getMakers()}, samples: map[string][]sample{
		sluiceName:   {{90, 90, 1, 16}},
		fasthttpName: {{100, 100, 0, 0}},
	}}
	d := document(options{}, []*benchCase{inMemory, overTCP})
	for i, want := range map[int]string{
		0: "Quick; -; 1; sluice; 70; 0.70 (0.70–0.70); 60; 0.60 (0.60–0.60); 1; 0.00; ≤ 0.80 met; ≤ 0.05 met",
		4: "Slow; raw; 1; sluice; 90; 0.90 (0.90–0.90); 90; 0.90 (0.90–0.90); 16; 1.00; ≤ 0.80 missed; -",
	} {
		if got := strings.Join(d.Sections[0].Rows[i], "; "); got != want {
			t.Errorf("row %d: %q, want %q", i, got, want)
		}
	}
	if rows := d.Sections[1].Rows; rows[0][1] != "1 of 2" || rows[1][1] != "1 of 1" {
		t.Errorf("verdicts %q", rows)
	}
}

func TestCheck(t *testing.T) {
	if err := check(200, []byte(responseBody), nil); err != nil {
		t.Error(err)
	}
	for _, err := range []error{check(500, []byte(responseBody), nil), check(200, nil, nil), check(200, []byte(responseBody), io.EOF)} {
		if err == nil {
			t.Error("a wrong answer passes")
		}
	}
}

// TestCrewStopsAtAnError: a client that fails is not measured.
func TestCrewStopsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	w := newCrew(client{func() operation { return func() error { return broken } }, func() {}}, 3)
	defer w.dismiss()
	if err := w.calibrate(time.Millisecond); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// TestLapSendsAllRequests: neither more nor fewer than were asked for.
func TestLapSendsAllRequests(t *testing.T) {
	for _, workers := range []int{1, 3} {
		sent := make(chan struct{}, 100)
		w := newCrew(client{func() operation { return func() error { sent <- struct{}{}; return nil } }, func() {}}, workers)
		for _, requests := range []int{1, 7, 20} {
			if _, err := w.lap(requests); err != nil || len(sent) != requests {
				t.Errorf("%d workers sent %d of %d, %v", workers, len(sent), requests, err)
			}
			for len(sent) > 0 {
				<-sent
			}
		}
		w.dismiss()
	}
}

// TestAnswerRaw: one answer for each head, wherever reads cut them.
func TestAnswerRaw(t *testing.T) {
	for _, size := range []int{1, 7, len(constantRequest), 1 << 20} {
		pipe := fasthttputil.NewPipeConns()
		go answerRaw(pipe.Conn2())
		const heads = 2*rawBatch + 3
		in := strings.Repeat(constantRequest, heads)
		go func() {
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				if _, err := pipe.Conn1().Write([]byte(rest[:n])); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		out := make([]byte, heads*len(response))
		if _, err := io.ReadFull(pipe.Conn1(), out); err != nil || string(out) != strings.Repeat(response, heads) {
			t.Errorf("pieces of %d: other answers, %v", size, err)
		}
		_ = pipe.Close()
	}
}

// TestFastConn: a Read that comes first waits for the request, and Close ends
// it.
func TestFastConn(t *testing.T) {
	c := newFastConn()
	read := make(chan error)
	go func() {
		buf := make([]byte, len(response))
		for {
			if _, err := io.ReadFull(c, buf); err != nil {
				read <- err
				return
			}
			if string(buf) != response {
				err := errors.New("another response")
				read <- err
				return
			}
			read <- nil
		}
	}()
	for range 1000 {
		if _, err := c.Write([]byte(constantRequest)); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\n")); err == nil {
		t.Error("half a request is taken")
	}
}
