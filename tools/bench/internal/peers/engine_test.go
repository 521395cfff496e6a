package peers

import (
	"testing"

	"github.com/valyala/fasthttp/fasthttputil"
)

// A server of kind epoll does not quietly serve with another engine.
func TestEpollDoesNotFallBack(t *testing.T) {
	ln := fasthttputil.NewInmemoryListener()
	ln.Close() // should it serve after all, it ends at once
	server, err := New(Epoll, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(ln); err == nil {
		t.Error("it served an in-memory listener")
	}
}
