package prefork

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// The limit of /limit.
	limitEvents = 500
	limitBurst  = 50
	// cacheKeys is the number of keys of /cache.
	cacheKeys = 16
)

// handleInvariant handles the requests of the invariants' tests.
func handleInvariant(ctx *sluice.RequestCtx) bool {
	n := ctx.QueryArgs().GetUintOrZero("n")
	switch string(ctx.Path()) {
	case "/echo":
		fmt.Fprintf(ctx, "%d:", n)
		ctx.Write(ctx.PostBody())
	case "/large":
		ctx.SetBodyString(largeBody(n))
	case "/stream":
		body := streamedBody(n)
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for line := range strings.Lines(body) {
				time.Sleep(5 * time.Millisecond)
				w.WriteString(line)
				if w.Flush() != nil {
					return
				}
			}
		})
	case "/add":
		hits := shared.Must(shared.Default().Counter("added"))
		for range n {
			hits.Inc()
		}
		fmt.Fprint(ctx, os.Getpid(), " ", hits.Value())
	case "/limit":
		limiter := shared.Must(shared.Default().RateLimiter("limit", shared.RateLimit{Events: limitEvents, Per: time.Second, Burst: limitBurst}))
		if isAllowed, _ := limiter.Allow([]byte("all")); !isAllowed {
			ctx.SetBodyString("no")
		}
	case "/cache":
		ctx.SetBodyString(useCache(n))
	case "/hijack": // and hold it until the client closes it
		ctx.Hijack(func(c net.Conn) { io.Copy(io.Discard, c) })
	case "/wedge":
		wedge(string(ctx.QueryArgs().Peek("file")))
	default:
		return false
	}
	return true
}

// largeBody is the body of /large.
func largeBody(n int) string { return strings.Repeat(fmt.Sprintf("%07d\n", n), 32<<10) }

// streamedBody is the body of /stream, which takes a tenth of a second.
func streamedBody(n int) string { return strings.Repeat(fmt.Sprintf("line of %d\n", n), 20) }

// useCache sets an entry of the shared cache and reads the next one. It returns "" or
// what is wrong with the entry.
func useCache(n int) string {
	cache := shared.Must(shared.Default().Cache("cache", shared.CacheOptions{Size: 1 << 20}))
	value := bytes.Repeat([]byte{byte('a' + n%26)}, 100+n%700)
	if err := cache.Set([]byte(fmt.Sprint("key", n%cacheKeys)), value, 0); err != nil && err != shared.ErrBusy {
		return err.Error()
	}
	got, _ := cache.Get(nil, []byte(fmt.Sprint("key", (n+1)%cacheKeys)))
	if len(got) > 0 && len(bytes.Trim(got, string(got[:1]))) > 0 {
		return fmt.Sprintf("torn: %q", got)
	}
	return "sound"
}

// wedge occupies the process's only P for ever. The runtime cannot preempt it,
// because the thread blocks signals and the loop calls nothing. It stores the process's
// pid in a mapping of the file, whose first bytes are not zero only when nothing else
// of the process runs: a system call that wrote them could lose the P to an Accept.
func wedge(file string) {
	pid := uint32(os.Getpid())
	f, err := os.Create(file)
	if err == nil {
		err = f.Truncate(4)
	}
	if err != nil {
		panic(err)
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	runtime.LockOSThread()
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		panic(err)
	}
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&mapped[0])), pid) // the compiler would leave another store out: nothing follows
	for n := 1; n != 0; n |= 1 {                                   //nolint:revive // the loop must be empty
	}
}

// A stuckListener accepts nothing in the first worker of slot 0 once a file exists.
type stuckListener struct {
	net.Listener
	gate string
	info *WorkerInfo
}

func (l stuckListener) Accept() (net.Conn, error) {
	if _, err := os.Stat(l.gate); err == nil && l.info.Slot == 0 && l.info.Generation == 1 {
		select {}
	}
	return l.Listener.Accept()
}

// isSound returns an error unless the response is the expected one.
func isSound(resp *http.Response, got, want string) error {
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %s", resp.Status)
	case got != want:
		return fmt.Errorf("answer of %d bytes %.40q, want %d bytes %.40q", len(got), got, len(want), want)
	}
	return nil
}
