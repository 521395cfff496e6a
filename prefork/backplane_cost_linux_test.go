package prefork

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

var (
	costRate    = flag.Int("backplane.rate", 0, "messages a second that each worker of TestBackplaneCost publishes; 0: it is skipped")
	costWorkers = flag.Int("backplane.workers", 4, "of TestBackplaneCost")
	costFor     = flag.Duration("backplane.for", 5*time.Second, "how long TestBackplaneCost measures")
)

// A publishing says what workers do in TestBackplaneCost.
type publishing struct {
	Rate int
	Room string // into which they publish; "": they only wait
	Join string // which they join
}

// received counts what a worker receives.
type received struct{ n, bytes, gaps atomic.Int64 }

func (r *received) Received(_ string, data []byte) { r.n.Add(1); r.bytes.Add(int64(len(data))) }
func (r *received) Gap(string)                     { r.gaps.Add(1) }

// withPublishing makes the workers publish.
func withPublishing(p *Prefork, what publishing, next sluice.RequestHandler) sluice.RequestHandler {
	plane, r := p.Backplane("cost"), &received{}
	if err := plane.Subscribe(r); err != nil {
		panic(err)
	}
	_ = plane.Join(what.Join)
	p.OnReopen = func() error {
		fmt.Printf("received %d %d %d\n", os.Getpid(), r.n.Load(), r.gaps.Load())
		return nil
	}
	if IsChild() {
		go func() {
			data := make([]byte, 256)
			began := time.Now()
			for n := 0; ; n++ {
				time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(what.Rate))))
				if what.Room != "" {
					_ = plane.Publish(what.Room, data)
				}
			}
		}()
	}
	return next
}

// What the messages between workers cost. It is not a test but a measurement.
func TestBackplaneCost(t *testing.T) {
	if *costRate == 0 {
		t.Skip("no -backplane.rate")
	}
	for _, c := range []publishing{{}, {Room: "here", Join: "here"}, {Room: "there", Join: "here"}, {}, {Room: "here", Join: "here"}, {Room: "there", Join: "here"}} {
		c.Rate = *costRate
		f := start(t, setup{Workers: *costWorkers, Publishing: c}, true)
		time.Sleep(time.Second)
		before := f.cpuTime()
		time.Sleep(*costFor)
		used := f.cpuTime() - before
		t.Logf("%d workers publish %d messages/s each into %q, and have joined %q: %.1f %% of a core in all",
			*costWorkers, c.Rate, c.Room, c.Join, 100*used.Seconds()/costFor.Seconds())
		f.signal(os.Kill)
		f.wait()
	}
}

// cpuTime returns what the workers have used.
func (f *fleet) cpuTime() (sum time.Duration) {
	for _, pid := range f.pids() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			f.t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(after)[11:13] { // utime, stime, in 1/100 s
			n, _ := strconv.Atoi(field)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
