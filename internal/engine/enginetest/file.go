package enginetest

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// openSource makes a file that holds a pattern of n bytes.
func openSource(t *testing.T, n int) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, pattern(n), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A lease is the Done of a file that a session has sent.
type lease struct {
	session *session
	closed  atomic.Bool
}

// Close implements io.Closer.
func (l *lease) Close() error {
	a := l.session.acceptor
	if l.closed.Swap(true) {
		a.violate("Done of a file closed twice")
	}
	if l.session.dead.Load() {
		a.violate("Done of a file closed after Closed or Sleep")
	}
	a.returned.Add(1)
	return nil
}

// file executes the command "file OFFSET SIZE [what follows]".
func (s *session) file(out []byte, args []string) ([]byte, engine.Next) {
	out = s.sendFile(out, number(args, 0), number(args, 1))
	if len(args) == 2 {
		return out, engine.Read
	}
	switch args[2] {
	case "again": // one more Run without Feed
		s.extra = "echo behind"
		return out, engine.Run
	case "close":
		return out, engine.Close
	case "linger":
		return out, engine.CloseLinger
	case "detach":
		return out, engine.Detach
	case "abort":
		return out, engine.Abort
	case "goexit":
		runtime.Goexit()
	}
	panic("a session panics behind a file")
}

// sendFile answers with a part of the source.
func (s *session) sendFile(out []byte, offset, size int) []byte {
	a := s.acceptor
	a.lent.Add(1)
	s.conn.SendFile(engine.File{Source: a.source, Offset: int64(offset), Size: int64(size), Done: &lease{session: s}})
	return append(strconv.AppendInt(out, int64(size), 10), ':')
}
