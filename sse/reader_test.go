package sse

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestReader: streams as the standard describes them, in pieces of every size.
func TestReader(t *testing.T) {
	for name, test := range map[string]struct {
		in, want string // id, name and data of each event
		retry    time.Duration
		id       string
	}{
		"the standard's first":  {in: "data: YHOO\ndata: +2\ndata: 10\n\n", want: "||YHOO\n+2\n10;"},
		"comments and ids":      {in: ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n", want: "1||first event;||second event;|| third event;"},
		"empty data":            {in: "data\n\ndata\ndata\n\ndata:", want: "||;||\n;"},
		"one space":             {in: "data:test\n\ndata: test\n\n", want: "||test;||test;"},
		"BOM":                   {in: "\xef\xbb\xbfdata: x\n\ndata: \xef\xbb\xbf\n\n", want: "||x;||\xef\xbb\xbf;"},
		"CR and CRLF":           {in: "event: a\rdata: x\r\rdata: y\r\n\r\ndata: z\n\r\n", want: "|a|x;||y;||z;"},
		"name without data":     {in: "event: a\n\ndata: x\n\n", want: "||x;"},
		"last name":             {in: "event: a\nevent: b\ndata: x\n\n", want: "|b|x;"},
		"an ID with NUL":        {in: "id: 1\nid: a\x00b\ndata: x\n\n", want: "1||x;", id: "1"},
		"an ID alone":           {in: "id: 7\n\n", id: "7"},
		"retry":                 {in: "retry: 1500\nretry: 1a\nretry: -1\n\n", retry: 1500 * time.Millisecond},
		"not an event, yet":     {in: "data: x\n\ndata: y\n", want: "||x;"},
		"unknown and odd lines": {in: "foo: bar\n data: no\ndata : no\n:data: no\ndata: yes: no\n\n", want: "||yes: no;"},
	} {
		for size := 1; size <= len(test.in); size++ {
			r := NewReader(&pieces{in: []byte(test.in), size: size})
			got := ""
			for {
				e, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(name, err)
				}
				got += e.ID + "|" + e.Name + "|" + string(e.Data) + ";"
			}
			if got != test.want || r.Retry() != test.retry || test.id != "" && r.LastID() != test.id {
				t.Fatalf("%s, by %d: %q, retry %v, ID %q", name, size, got, r.Retry(), r.LastID())
			}
		}
	}
}

// A stream that goes on for ever ends with ErrTooLarge, or holds nothing of what it has sent.
func TestReaderBounds(t *testing.T) {
	long := strings.Repeat("x", MaxEvent/2)
	for name, test := range map[string]struct {
		in   string // repeated until the Reader has had 16 times MaxEvent
		want error
	}{
		"an endless line":     {long, ErrTooLarge},
		"an endless comment":  {":" + long, ErrTooLarge},
		"lines of one event":  {"data: " + long + "\n", ErrTooLarge},
		"empty lines of data": {"data\n", ErrTooLarge},
		"comments":            {":" + long + "\n", errBroken},
		"unknown fields":      {long + "\n", errBroken},
		"names":               {"event: " + long + "\n", errBroken},
		"names without data":  {"event: " + long + "\n\n", errBroken},
		"IDs":                 {"id: " + long + "\n\n", errBroken},
		"blank lines":         {"\n", errBroken},
		"a broken body":       {"data: x\n:" + long + "\n", errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(&endless{text: test.in, left: 16 * MaxEvent})
			if _, err := r.Next(); err != test.want {
				t.Error(err)
			}
			held := cap(r.line) + cap(r.event.data) + len(r.event.name) + len(r.event.id) + len(r.lastID)
			if held > 10*MaxEvent {
				t.Errorf("the Reader holds %d bytes", held)
			}
		})
	}
	r := NewReader(strings.NewReader("data: " + strings.Repeat("x", MaxEvent) + "\n\n"))
	if e, err := r.Next(); err != nil || len(e.Data) != MaxEvent {
		t.Errorf("%d bytes, %v", len(e.Data), err)
	}
}

// While the program does not call Next, what is read of a flood is at most a buffer.
func TestReaderReadsWhatIsAskedFor(t *testing.T) {
	body := &endless{text: "data: x\n\n", left: MaxEvent}
	r := NewReader(body)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if n := MaxEvent - body.left; n > 4<<10 {
		t.Errorf("%d bytes are read for one event", n)
	}
}

// An endless body repeats a text, and fails when nothing is left.
type endless struct {
	text     string
	at, left int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, errBroken
	}
	n := copy(p[:min(len(p), e.left)], e.text[e.at:])
	e.at, e.left = (e.at+n)%len(e.text), e.left-n
	return n, nil
}

var errBroken = errors.New("broken")

func FuzzReader(f *testing.F) {
	f.Add([]byte("id: 1\ndata: x\r\n\r\n"), 2)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		whole, parts := NewReader(strings.NewReader(string(in))), NewReader(&pieces{in: in, size: max(size%50, 1)})
		for {
			a, errA := whole.Next()
			b, errB := parts.Next()
			if a.ID != b.ID || a.Name != b.Name || string(a.Data) != string(b.Data) || errA != errB {
				t.Fatalf("%+v %v, and in parts %+v %v", a, errA, b, errB)
			}
			if errA != nil {
				return
			}
		}
	})
}

// TestReaderPosition: LastID stands for what Next has returned, wherever the stream is cut.
func TestReaderPosition(t *testing.T) {
	for _, test := range []struct{ in, want string }{ // want: LastID after each call of Next
		{"id: 1\ndata: a\n\nid: 2\n", "1 1"},
		{"id: 1\ndata: a\n\nid: 2\ndata: b\n", "1 1"},
		{"data: a\nid: 1\n\ndata: b\nid: 2", "1 1"},
		{"id: 1\ndata: a\n\nid: 2\n\n", "1 2"},
		{"id: 1\ndata: a\n\nid: 2\n\nid: 3\n", "1 2"},
		{"id: 1\ndata: a\r\rid\rdata: b\r", "1 1"},
		{"id: 1\ndata: a\r\rid\rdata: b\r\r", "1  "},
		{"id: 1\n\ndata: " + strings.Repeat("x", MaxEvent) + "\ndata: x\nid: 2\n\n", "1 1"},
		{"id: 1\n\ndata: x\nid: 2\n:" + strings.Repeat("x", 3*MaxEvent) + "\n\n", "1 1"},
	} {
		got := []string{}
		r := NewReader(strings.NewReader(test.in))
		for errs := 0; errs < 1; {
			if _, err := r.Next(); err != nil {
				errs++
			}
			got = append(got, r.LastID())
		}
		if _, err := r.Next(); err == nil || len(got) == 1 {
			got = append(got, r.LastID()) // after the error, nothing moves
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%.60q: %q, want %q", test.in, got, test.want)
		}
	}
}

// TestReaderGoesOn: after an error that passes, Next continues, and loses nothing.
func TestReaderGoesOn(t *testing.T) {
	const in = "event: n\r\ndata: a\nid: 1\n\ndata: b\r\rid: 2\n\n"
	for cut := range len(in) {
		r := NewReader(io.MultiReader(strings.NewReader(in[:cut]), &passing{}, strings.NewReader(in[cut:])))
		got := ""
		for {
			e, err := r.Next()
			switch err {
			case nil:
				got += e.ID + e.Name + string(e.Data) + r.LastID() + ";"
			case io.EOF:
			default:
				continue
			}
			if err != nil {
				break
			}
		}
		if got += r.LastID(); got != "1na1;1b1;2" {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
}

// passing fails once.
type passing struct{ hasFailed bool }

func (p *passing) Read([]byte) (int, error) {
	if p.hasFailed {
		return 0, io.EOF
	}
	p.hasFailed = true
	return 0, errBroken
}
