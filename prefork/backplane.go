package prefork

import (
	"context"
	"os"
	"time"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/internal/process/mesh"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// partPatience bounds the wait until what a worker has published is sent, at its end.
	partPatience = 100 * time.Millisecond
	// topicsName is the name of the joined rooms in the segment.
	topicsName = "prefork.topics"
)

// Backplane returns the backplane of that name between the workers of a master, for
// example for room.Options. The name has 1 to 64 bytes and no NUL, and is the same in all
// workers. A name is for one receiver of a process: a second Subscribe returns an error.
//
// A worker is connected with the others in ListenAndServe, before it serves: it gets what
// they publish from then on. What it publishes before goes nowhere. While a worker is
// replaced, both processes are connected. A worker that can take no more, because 1 MiB
// waits for it, is told of a gap later. If a worker dies, the others and its successor
// are told of a gap.
//
// In a process that is no worker, the backplane has no peers and no method fails, so the
// same program runs alone. In a worker that cannot be connected, Subscribe or
// ListenAndServe returns ErrNoBackplane, because rooms would end at each process
// unnoticed.
func (p *Prefork) Backplane(name string) backplane.Backplane {
	if IsChild() && !supervise.HasMeet {
		return noBackplane{p.mesh.Plane(name)}
	}
	return p.mesh.Plane(name)
}

// noBackplane is the backplane of workers that cannot be connected.
type noBackplane struct{ backplane.Backplane }

// Subscribe returns ErrNoBackplane.
func (noBackplane) Subscribe(backplane.Receiver) error { return ErrNoBackplane }

// meet connects the worker with the others, if a Backplane has a receiver, or when one
// gets it.
func (w *worker) meet(info WorkerInfo) error {
	return w.prefork.mesh.Start(mesh.Options{
		Slot: info.Slot, Generation: info.Generation,
		Interests: w.interests,
		Meet:      w.meetOthers,
		Failed:    func(err error) { w.logf("a stream to another worker ends: %v", err) },
	})
}

// interests implements mesh.Options.
func (w *worker) interests() mesh.Interests {
	if !w.hasSegment {
		return nil
	}
	topics, err := shared.Default().Topics(topicsName)
	if err != nil {
		w.logf("every worker gets all messages of rooms: %v", err)
		return nil
	}
	return topics
}

// meetOthers implements mesh.Options.
func (w *worker) meetOthers(take func(mesh.Conn)) error {
	err := w.link.Meet(func(f *os.File) { take(f) })
	if err == supervise.ErrDetached {
		return ErrNoBackplane
	}
	return err
}

// part leaves the other workers, who get what was published.
func (w *worker) part() {
	ctx, cancel := context.WithTimeout(context.Background(), partPatience)
	defer cancel()
	w.prefork.mesh.Close(ctx)
}
