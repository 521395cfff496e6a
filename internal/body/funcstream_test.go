package body

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
)

// A FuncStream's function runs once, and Stray says whether it may outlive the message.
func TestFuncStream(t *testing.T) {
	for name, c := range map[string]struct {
		use    func(t *testing.T, s *FuncStream) (got string)
		want   string
		strays int32
	}{
		"in place": {func(t *testing.T, s *FuncStream) string {
			var out bytes.Buffer
			w := bufio.NewWriter(&out)
			s.WriteInPlace(w)
			w.Flush()
			if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("Read afterwards: %d, %v", n, err)
			}
			return out.String()
		}, "text", 0},
		"read": {func(t *testing.T, s *FuncStream) string {
			got, err := io.ReadAll(s)
			if err != nil {
				t.Error(err)
			}
			return string(got)
		}, "text", 0},
		"closed while it is read": {func(t *testing.T, s *FuncStream) string {
			p := make([]byte, 2)
			if _, err := io.ReadFull(s, p); err != nil {
				t.Error(err)
			}
			return string(p)
		}, "te", 1},
		"not read": {func(*testing.T, *FuncStream) string { return "" }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, stray := 0, int32(1)
				s := &FuncStream{Stray: &stray, Write: func(w *bufio.Writer) {
					calls++
					w.WriteString("text")
				}}
				if got := c.use(t, s); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				for range 2 {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait()
				if calls != 1 || stray != c.strays {
					t.Errorf("%d calls, %d stray, want 1 and %d", calls, stray, c.strays)
				}
			})
		})
	}
}

// A function whose stream was closed before anybody read it is told so.
func TestFuncStreamThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		s := &FuncStream{Write: func(w *bufio.Writer) {
			w.WriteString("text")
			failure = w.Flush()
		}}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if failure != errReaderClosed {
			t.Errorf("the function got %v", failure)
		}
	})
}

// The reader of a function that panics gets what it wrote, and then the error.
func TestFuncStreamPanics(t *testing.T) {
	s := &FuncStream{
		Write: func(w *bufio.Writer) {
			w.WriteString("text")
			w.Flush()
			panic("function")
		},
		Panicked: func(value any) error { return fmt.Errorf("%w: %v", errSource, value) },
	}
	if got, err := io.ReadAll(s); string(got) != "text" || err == nil || err.Error() != "source: function" {
		t.Errorf("%q, %v", got, err)
	}
}
