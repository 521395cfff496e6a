package body

import (
	"bufio"
	"bytes"
	"testing"
)

func TestNoChunkEndsTheContent(t *testing.T) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	if n, err := writeChunk(w, nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	writeChunk(w, []byte("x"))
	w.Flush()
	if got := out.String(); got != "1\r\nx\r\n" {
		t.Errorf("%q", got)
	}
}

// What is beyond the announced length is not sent. A copy that may end early is told.
func TestSizedBeyondTheLength(t *testing.T) {
	for _, c := range []struct {
		endsEarly bool
		n         int
		err       error
	}{{false, 4, nil}, {true, 0, errSizeReached}} {
		w := &Sized{EndsEarly: c.endsEarly}
		if n, err := w.Write([]byte("more")); n != c.n || err != c.err {
			t.Errorf("ends early %v: %d, %v, want %d, %v", c.endsEarly, n, err, c.n, c.err)
		}
	}
}
