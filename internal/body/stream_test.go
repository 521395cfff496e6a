package body

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// textSource is a body in memory. Without more of it, a Read waits for Interrupt.
type textSource struct {
	text    string
	hasEnd  bool // io.EOF follows text
	waiting chan struct{}
	stopped chan struct{}
	ended   []error
}

var errStopped = errors.New("stopped")

func (s *textSource) ReadBody(p []byte) (int, error) {
	if s.text == "" {
		if s.hasEnd {
			return 0, io.EOF
		}
		close(s.waiting)
		<-s.stopped
		return 0, errStopped
	}
	n := copy(p, s.text)
	s.text = s.text[n:]
	return n, nil
}

func (s *textSource) IsComplete() bool { return s.text == "" && s.hasEnd }

func (s *textSource) Interrupt() { close(s.stopped) }

func (s *textSource) End(err error) error {
	s.ended = append(s.ended, err)
	return err
}

// TestStreamLimit: a body of at most the limit is read to its end; of a longer one, the
// limit.
func TestStreamLimit(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit int
		want  string
		err   error
	}{
		{"body", 0, "body", nil}, {"body", -1, "body", nil}, {"body", 4, "body", nil}, {"body", 3, "bod", ErrTooLarge}, {"", 1, "", nil},
	} {
		source := &textSource{text: tc.text, hasEnd: true}
		var s Stream
		s.Init(source, tc.limit)
		got, err := io.ReadAll(&s)
		if string(got) != tc.want || err != tc.err {
			t.Errorf("%q of at most %d: %q, %v", tc.text, tc.limit, got, err)
		}
		if n, again := s.Read(make([]byte, 1)); n != 0 || err != nil && again != err || err == nil && again != io.EOF {
			t.Errorf("%q: then %d, %v", tc.text, n, again)
		}
		if err := s.Close(); err != nil || len(source.ended) != 1 {
			t.Errorf("%q: %v, ended %v", tc.text, err, source.ended)
		}
	}
}

// TestStreamClose: the source ends once, with the reason. What follows is ErrClosed.
func TestStreamClose(t *testing.T) {
	reason := errors.New("reason")
	for _, tc := range []struct {
		read  int64
		close error
		want  error
	}{{0, nil, ErrClosed}, {4, nil, io.EOF}, {4, reason, ErrClosed}, {5, reason, io.EOF}} {
		source := &textSource{text: "body", hasEnd: true}
		var s Stream
		s.Init(source, 0)
		_, _ = io.Copy(io.Discard, io.LimitReader(&s, tc.read))
		for range 2 {
			if err := s.CloseWithError(tc.close); err != nil || len(source.ended) != 1 || source.ended[0] != tc.want {
				t.Errorf("after %d bytes: %v, ended with %v", tc.read, err, source.ended)
			}
			if _, err := s.Read(make([]byte, 1)); err != ErrClosed {
				t.Errorf("after %d bytes and Close: %v", tc.read, err)
			}
		}
	}
}

// TestStreamCloseDuringRead: Close makes a Read return that waits.
func TestStreamCloseDuringRead(t *testing.T) {
	source := &textSource{waiting: make(chan struct{}), stopped: make(chan struct{})}
	var s Stream
	s.Init(source, 0)
	read := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		read <- err
	}()
	<-source.waiting
	if err := s.Close(); err != nil || <-read != ErrClosed || len(source.ended) != 1 || source.ended[0] != ErrClosed {
		t.Errorf("%v, ended with %v", err, source.ended)
	}
	if s.interrupt(); !strings.Contains(ErrClosed.Error(), "closed") { // after the end, it does nothing
		t.Error(ErrClosed)
	}
}
