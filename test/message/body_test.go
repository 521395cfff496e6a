package message_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestBodySettersReplaceEachOther(t *testing.T) {
	setters := map[string]func(r *sluice.Response){
		"SetBody":       func(r *sluice.Response) { r.SetBody([]byte("body")) },
		"SetBodyString": func(r *sluice.Response) { r.SetBodyString("body") },
		"SetBodyRaw":    func(r *sluice.Response) { r.SetBodyRaw([]byte("body")) },
		"SetBodyStream": func(r *sluice.Response) { r.SetBodyStream(strings.NewReader("body"), 4) },
		"SwapBody":      func(r *sluice.Response) { r.SwapBody([]byte("body")) },
	}
	for first, setFirst := range setters {
		for second, setSecond := range setters {
			var r sluice.Response
			r.SetBodyString("something longer before")
			setFirst(&r)
			setSecond(&r)
			if got := string(r.Body()); got != "body" {
				t.Errorf("%s, %s: body %q", first, second, got)
			}
			r.ResetBody()
			if len(r.Body()) != 0 || r.IsBodyStream() {
				t.Errorf("%s, %s: not empty after ResetBody", first, second)
			}
		}
	}
}

func TestAppendBody(t *testing.T) {
	raw := []byte("raw")
	for name, test := range map[string]struct {
		set  func(r *sluice.Request)
		want string
	}{
		"nothing":  {func(*sluice.Request) {}, "+++"},
		"buffered": {func(r *sluice.Request) { r.SetBodyString("a") }, "a+++"},
		"raw":      {func(r *sluice.Request) { r.SetBodyRaw(raw) }, "raw+++"},
		"stream":   {func(r *sluice.Request) { r.SetBodyStream(harness.StreamOf("s"), 1) }, "+++"},
	} {
		var r sluice.Request
		test.set(&r)
		r.AppendBody([]byte("+"))
		r.AppendBodyString("+")
		io.WriteString(r.BodyWriter(), "+")
		if got := string(r.Body()); got != test.want || r.IsBodyStream() {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if string(raw) != "raw" {
		t.Errorf("the borrowed body became %q", raw)
	}
}

func TestSwapBodyHandsOverOwnership(t *testing.T) {
	for name, set := range map[string]func(r *sluice.Response){
		"buffered": func(r *sluice.Response) { r.SetBodyString("old") },
		"raw":      func(r *sluice.Response) { r.SetBodyRaw([]byte("old")) },
		"stream":   func(r *sluice.Response) { r.SetBodyStream(harness.StreamOf("old"), -1) },
	} {
		var r sluice.Response
		set(&r)
		old := r.SwapBody([]byte("new"))
		r.AppendBodyString("!")
		if string(old) != "old" || string(r.Body()) != "new!" {
			t.Errorf("%s: old %q, new %q", name, old, r.Body())
		}
	}
	raw := []byte("raw")
	r := new(sluice.Response)
	r.SetBodyRaw(raw)
	if old := r.SwapBody(nil); &old[0] == &raw[0] {
		t.Error("the memory of SetBodyRaw is handed over")
	}
}

func TestBodyOfAStream(t *testing.T) {
	var r sluice.Response
	s := harness.StreamOf("streamed")
	r.SetBodyStream(s, -1)
	if !r.IsBodyStream() || r.BodyStream() != io.Reader(s) {
		t.Fatal("no stream")
	}
	if got := string(r.Body()); got != "streamed" || r.IsBodyStream() || s.Closed != 1 {
		t.Errorf("body %q, stream %v, closed %d times", got, r.IsBodyStream(), s.Closed)
	}
	if got := string(r.Body()); got != "streamed" {
		t.Errorf("second Body: %q", got)
	}
	r.SetBodyStream(iotest.ErrReader(errors.New("boom")), -1)
	if got := string(r.Body()); got != "boom" {
		t.Errorf("the error's text is not the body but %q", got)
	}
}

func TestStreamsAreClosedOnce(t *testing.T) {
	for name, end := range map[string]func(r *sluice.Response){
		"CloseBodyStream": func(r *sluice.Response) { r.CloseBodyStream() },
		"ResetBody":       func(r *sluice.Response) { r.ResetBody() },
		"Reset":           func(r *sluice.Response) { r.Reset() },
		"Release":         func(r *sluice.Response) { sluice.ReleaseResponse(r) },
		"SetBody":         func(r *sluice.Response) { r.SetBodyString("x") },
		"SetBodyRaw":      func(r *sluice.Response) { r.SetBodyRaw([]byte("x")) },
		"AppendBody":      func(r *sluice.Response) { r.AppendBodyString("x") },
		"SetBodyStream":   func(r *sluice.Response) { r.SetBodyStream(strings.NewReader("y"), -1) },
		"SwapBody":        func(r *sluice.Response) { r.SwapBody(nil) },
		"a StreamWriter":  func(r *sluice.Response) { r.SetBodyStreamWriter(func(*bufio.Writer) {}) },
		"Body":            func(r *sluice.Response) { r.Body() },
		"BodyWriteTo":     func(r *sluice.Response) { r.BodyWriteTo(io.Discard) },
		"CopyTo it":       func(r *sluice.Response) { new(sluice.Response).CopyTo(r) },
		"String":          func(r *sluice.Response) { _ = r.String() },
		"SkipBody":        func(r *sluice.Response) { r.SkipBody = true; _ = r.String() },
		"204":             func(r *sluice.Response) { r.SetStatusCode(204); _ = r.String() },
		"205":             func(r *sluice.Response) { r.SetStatusCode(205); _ = r.String() },
	} {
		r := new(sluice.Response)
		s := harness.StreamOf("stream")
		r.SetBodyStream(s, 6)
		end(r)
		if s.Closed != 1 {
			t.Errorf("%s: closed %d times", name, s.Closed)
		}
	}
}

func TestCloseBodyStreamReturnsTheError(t *testing.T) {
	boom := errors.New("boom")
	var r sluice.Request
	r.SetBodyStream(&harness.TrackedStream{Reader: strings.NewReader(""), Err: boom}, -1)
	if err := r.CloseBodyStream(); err != boom {
		t.Errorf("err = %v", err)
	}
	if err := r.CloseBodyStream(); err != nil {
		t.Errorf("second: err = %v", err)
	}
}

func TestBodyWriteTo(t *testing.T) {
	for name, set := range map[string]func(r *sluice.Request){
		"buffered": func(r *sluice.Request) { r.SetBodyString("body") },
		"raw":      func(r *sluice.Request) { r.SetBodyRaw([]byte("body")) },
		"stream":   func(r *sluice.Request) { r.SetBodyStream(harness.StreamOf("body"), -1) },
		"writer to": func(r *sluice.Request) {
			r.SetBodyStream(&optOut{Reader: strings.NewReader("body")}, -1)
		},
	} {
		var r sluice.Request
		set(&r)
		var out bytes.Buffer
		if err := r.BodyWriteTo(&out); err != nil || out.String() != "body" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

// An error of the stream's Close is that of BodyWriteTo.
func TestBodyWriteToReturnsTheErrorOfClose(t *testing.T) {
	failure := errors.New("close failed")
	var r sluice.Request
	r.SetBodyStream(&harness.TrackedStream{Reader: strings.NewReader("body"), Err: failure}, -1)
	var out bytes.Buffer
	if err := r.BodyWriteTo(&out); !errors.Is(err, failure) || out.String() != "body" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// optOut has a WriteTo that must not be used.
type optOut struct{ *strings.Reader }

func (*optOut) SupportsBodyWriteTo() bool { return false }

func (*optOut) WriteTo(io.Writer) (int64, error) {
	return 0, errors.New("WriteTo was used against the stream's will")
}

// allocated returns how much f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
