package prefork

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/sluicehttp/sluice"
)

const (
	// progressInterval is how often a stream of progress looks at the status, and
	// progressPause the longest time between two lines: a client that has gone is noticed.
	progressInterval = 50 * time.Millisecond
	progressPause    = 2 * time.Second
)

// A Progress is a line of the stream with which ControlHandler answers to wait=progress.
// The names in JSON will not change; new ones may be added.
type Progress struct {
	// State is "replacing", "soaking" (all slots have the version, and SoakTime is not
	// over), "rolling back", "waiting" (for the end of a restart that began before, or for
	// workers to be ready), and in the last line "done" or "failed".
	State string `json:"state"`
	// Version is the version that all slots are to have.
	Version int `json:"version"`
	// Replaced is the number of the slots that have it.
	Replaced int `json:"replaced"`
	// Wanted is the number of workers that should run.
	Wanted int `json:"wanted"`
	// Error says in one line why the order failed.
	Error string `json:"error,omitempty"`
}

// String returns p as a line for people.
func (p Progress) String() string {
	if p.Error != "" {
		return p.Error
	}
	return fmt.Sprintf("%s: %d of %d slots have version %d", p.State, p.Replaced, p.Wanted, p.Version)
}

// ControlHandler returns a handler for the master's Admin, with which "sluice ctl" and
// scripts operate the workers. The last element of the path says what to do:
//
//	GET  /status             StatusHandler
//	POST /restart, /reload   Prefork.Restart
//	POST /upgrade            Prefork.UpgradeWorkers
//	POST /scale?workers=N    Prefork.Scale; the order is carried out when N workers serve,
//	                         and fails if another order changes N before
//
// A POST is answered when the order was carried out: with status 200, or 500 and the
// reason for the failure in one line. With the query argument wait=no the answer is 202,
// at once. With wait=progress it is 200 and a stream of JSON objects, each a Progress on
// a line of its own; the last one tells how it ended. An order is carried out even if the
// client goes.
//
// Other paths get 404, other methods 405, and requests that a browser sends for a web
// page 403, as from RestartHandler. There is no other check: serve this handler on a
// private address, or add authentication.
func ControlHandler(p *Prefork) sluice.RequestHandler {
	status := StatusHandler(p)
	return func(ctx *sluice.RequestCtx) {
		verb := path.Base(string(ctx.Path()))
		if verb == "status" {
			status(ctx)
			return
		}
		order := p.orderOf(verb, ctx.QueryArgs())
		if order.do == nil {
			ctx.Error("there are /status and, for POST, /restart, /reload, /upgrade and /scale\n", sluice.StatusNotFound)
			return
		}
		p.answer(ctx, order)
	}
}

// An order is what a request asks for.
type order struct {
	do   func(context.Context) error // returns when it was carried out; gives the order even if the context has ended
	done string                      // the answer then
}

// orderOf returns the order of a verb; the zero order if there is none.
func (p *Prefork) orderOf(verb string, args *sluice.Args) order {
	switch verb {
	case "restart", "reload":
		return order{p.Restart, "restarted"}
	case "upgrade":
		return order{p.UpgradeWorkers, "upgraded"}
	case "scale":
		workers, err := args.GetUint("workers")
		if err != nil {
			workers = 0 // which is out of bounds
		}
		return order{func(ctx context.Context) error { return p.scaleTo(ctx, workers) }, "scaled"}
	}
	return order{}
}

// answer carries an order out, if the request may give one.
func (p *Prefork) answer(ctx *sluice.RequestCtx, o order) {
	switch {
	case !ctx.IsPost():
		ctx.Error("Method Not Allowed", sluice.StatusMethodNotAllowed)
		ctx.Response.Header.Set(sluice.HeaderAllow, "POST")
		return
	case isOfPage(&ctx.Request.Header):
		ctx.Error("Forbidden", sluice.StatusForbidden)
		return
	}
	var err error
	switch string(ctx.QueryArgs().Peek("wait")) {
	case "progress":
		ctx.SetContentType("application/x-ndjson")
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) { p.tell(w, o.do) })
		return
	case "no":
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err = o.do(over); err == nil || errors.Is(err, context.Canceled) {
			ctx.SetStatusCode(sluice.StatusAccepted)
			return
		}
	default:
		if err = o.do(ctx); err == nil {
			ctx.SetBodyString(o.done + "\n")
			return
		}
	}
	ctx.Error(err.Error()+"\n", sluice.StatusInternalServerError)
}

// tell carries an order out and writes its progress.
func (p *Prefork) tell(w *bufio.Writer, do func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	var last Progress
	var told time.Time
	for {
		select {
		case err := <-done:
			writeLine(w, endOf(p.Status(), err))
			return
		case <-ticker.C:
		}
		now := progressOf(p.Status())
		if now == last && time.Since(told) < progressPause {
			continue
		}
		last, told = now, time.Now()
		if writeLine(w, now) != nil {
			return // the client has gone
		}
	}
}

// writeLine writes p as a line of JSON.
func writeLine(w *bufio.Writer, p Progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w.Write(append(text, '\n'))
	return w.Flush()
}

// progressOf returns what a fleet with this status does.
func progressOf(s Status) Progress {
	now := Progress{State: "waiting", Version: s.Version, Wanted: s.Wanted}
	switch {
	case s.Rolling && s.Version == s.GoodVersion:
		now.State = "rolling back"
	case s.Rolling:
		now.State = "replacing"
	case s.Soaking:
		now.State = "soaking"
	}
	for i := range s.Slots {
		if !s.Slots[i].Retired && s.Slots[i].Version == s.Version {
			now.Replaced++
		}
	}
	return now
}

// endOf returns the last step of an order that ended with err. The order after it may have begun.
func endOf(s Status, err error) Progress {
	if err != nil {
		end := progressOf(s)
		end.State, end.Error = "failed", err.Error()
		return end
	}
	return Progress{State: "done", Version: s.GoodVersion, Replaced: s.Wanted, Wanted: s.Wanted}
}

// scaleTo is Scale that returns when the workers serve, or an error.
func (p *Prefork) scaleTo(ctx context.Context, workers int) error {
	m := p.master()
	if m == nil {
		return ErrNotMaster
	}
	if most := m.Status().MaxWorkers; workers < 1 || workers > most {
		return fmt.Errorf("sluice: the number of workers must be between 1 and %d", most)
	}
	m.Scale(workers)
	if err := m.Probe(ctx); err != nil { // from here on, Status knows of the order
		return err
	}
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		switch s := m.Status(); {
		case s.Stopping, s.Paused:
			return ErrStopping
		case s.Wanted != workers:
			return fmt.Errorf("sluice: another order wants %d workers, and not %d", s.Wanted, workers)
		case s.Ready:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
