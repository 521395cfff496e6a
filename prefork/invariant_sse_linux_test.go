package prefork

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
)

var socketStreams = flag.Int("websocket.streams", 40, "how many streams of events TestRestartsOfWebSockets has, of which a tenth gets events all the time")

// withStreams serves /events/busy and /events/idle. /publish?topic=T&data=D publishes.
func withStreams(p *Prefork, s *sluice.Server, next sluice.RequestHandler) sluice.RequestHandler {
	hub, err := sse.New(sse.Options{
		Name: "events", Backplane: p.Backplane("events"), History: 5000,
		OnGap:   func() { fmt.Println("gap of events", os.Getpid()) },
		OnClose: func(topics []string, err error) { fmt.Println("stream closed", os.Getpid(), topics, err) },
	})
	if err == nil {
		err = hub.Register(s)
	}
	if err != nil {
		panic(err)
	}
	return func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/events/busy", "/events/idle":
			err = hub.Serve(ctx, string(ctx.Path()[len("/events/"):]))
		case "/publish":
			args := ctx.QueryArgs()
			for range max(args.GetUintOrZero("count"), 1) {
				err = hub.Publish(string(args.Peek("topic")), sse.Event{Data: args.Peek("data")})
			}
		default:
			next(ctx)
			return
		}
		if err != nil {
			ctx.Error(err.Error(), sluice.StatusServiceUnavailable)
		}
	}
}

// streams are clients of withStreams. Each must get every event once.
type streams struct {
	*fleet
	load      *load
	reading   sync.WaitGroup
	published int
}

// streams opens count streams, and begins to publish.
func (f *fleet) streams(l *load, count int) *streams {
	s := &streams{fleet: f, load: l}
	if count == 0 {
		return s
	}
	transport := &http.Transport{}
	f.t.Cleanup(transport.CloseIdleConnections)
	for i := range count {
		topic := "idle"
		if i%10 == 0 {
			topic = "busy"
		}
		resp, err := (&http.Client{Transport: transport}).Get("http://" + f.addr(0) + "/events/" + topic)
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { resp.Body.Close() })
		s.reading.Go(func() {
			if err := readStream(sse.NewReader(resp.Body)); err != nil {
				l.fail(fmt.Errorf("stream %d of %s: %w", i, topic, err))
			}
		})
	}
	l.done.Go(func() {
		for !l.stop.Load() {
			s.publish("busy", strconv.Itoa(s.published))
			s.published++
			l.answered.Add(1)
			time.Sleep(2 * time.Millisecond)
		}
	})
	return s
}

func (s *streams) publish(topic, data string) {
	if _, err := s.get("/publish?topic=" + topic + "&data=" + data); err != nil {
		s.load.fail(err)
	}
}

// end ends the streams, after the load has ended. It tells each how many events it should
// have got, and waits until they have compared.
func (s *streams) end() {
	s.publish("busy", "end"+strconv.Itoa(s.published))
	s.publish("idle", "end0")
	s.reading.Wait()
}

// readStream reads events with numbers, in any order, up to one that says how many there
// are.
func readStream(r *sse.Reader) error {
	got := map[int]bool{}
	count := -1
	for count < 0 || len(got) < count {
		e, err := r.Next()
		if err != nil {
			return fmt.Errorf("after %d events: %w", len(got), err)
		}
		data := string(e.Data)
		if n, isEnd := cutEnd(data); isEnd {
			count = n
			continue
		}
		n, err := strconv.Atoi(data)
		if err != nil || got[n] {
			return errors.Join(fmt.Errorf("event %q twice, or malformed", data), err)
		}
		got[n] = true
	}
	return nil
}

func cutEnd(data string) (count int, ok bool) {
	if len(data) < 4 || data[:3] != "end" {
		return 0, false
	}
	count, err := strconv.Atoi(data[3:])
	return count, err == nil
}
