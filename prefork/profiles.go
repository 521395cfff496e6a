package prefork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
)

const (
	// profilesAtOnce bounds the profiles that a ProfileHandler has made at the same time.
	profilesAtOnce = 4
	// profilePatience bounds the wait for a worker, beyond what it measures, and for each
	// part of its answer.
	profilePatience = 10 * time.Second
	// profileLongest bounds what it may be asked to measure.
	profileLongest = 5 * time.Minute
	// The paths of a profile: of the admin, and of Profiles.
	profileWorkers, profileBelow, profilePath = "/workers/", "/pprof/", "/debug/pprof/"
)

// errProfilesOff is the answer if there are no profiles.
var errProfilesOff = errors.New("sluice: profiles are off: set Profiles of Prefork or Single, or start sluice serve with --profiles")

// A profiled is a Source whose processes can be asked for profiles.
type profiled interface {
	// dial returns a connection on which a process answers, or ErrNotMaster,
	// supervise.ErrNoWorker and others.
	dial(slot, generation int) (net.Conn, error)
}

// ProfileHandler returns a handler for the master's Admin that answers with profiles of a
// worker. The worker itself makes them, by the Profiles of s, a Prefork or a Single:
//
//	GET /workers/SLOT/pprof/NAME       of the worker that serves the slot
//	GET /workers/SLOT.GEN/pprof/NAME   of the slot's process of that generation
//
// These may be below another path. For a Single, SLOT is 0. With pprofhandler.PprofHandler,
// NAME is heap, goroutine, profile, trace and so on, and without a NAME there is a list.
//
// A worker that does not answer within ten seconds, beyond those of the query argument
// seconds, gets the client status 504, and one that has ended 404. At most four profiles
// are made at once; one more gets 503. The argument seconds may be up to 300. Without
// Profiles, everything gets 404. It works on Linux; elsewhere for a Single only.
//
// Profiles tell much about a process, and cost it time: serve this handler on a private
// address, or add authentication.
func ProfileHandler(s Source) sluice.RequestHandler {
	room := make(chan struct{}, profilesAtOnce)
	return func(ctx *sluice.RequestCtx) {
		if !ctx.IsGet() && !ctx.IsHead() {
			ctx.Error("Method Not Allowed", sluice.StatusMethodNotAllowed)
			ctx.Response.Header.Set(sluice.HeaderAllow, "GET, HEAD")
			return
		}
		if status, err := answerProfile(ctx, s, room); err != nil {
			ctx.Response.Reset()
			ctx.Error(strings.TrimPrefix(err.Error(), "sluice: ")+"\n", status)
		}
		ctx.Response.Header.Set(sluice.HeaderCacheControl, "no-store")
	}
}

// answerProfile answers with a profile, or returns the status of an error.
func answerProfile(ctx *sluice.RequestCtx, s Source, room chan struct{}) (int, error) {
	status := s.Status()
	source, ok := s.(profiled)
	if !ok || !status.Profiles {
		return sluice.StatusNotFound, errProfilesOff
	}
	_, below, _ := strings.Cut(string(ctx.Path()), profileWorkers)
	worker, name, _ := strings.Cut(below, profileBelow)
	slot, generation, ok := findWorker(&status, worker)
	if !ok {
		return sluice.StatusNotFound, fmt.Errorf("sluice: there is no worker %q", worker)
	}
	took, err := measured(name, ctx.QueryArgs())
	if err != nil {
		return sluice.StatusBadRequest, err
	}
	select {
	case room <- struct{}{}:
	default:
		return sluice.StatusServiceUnavailable, fmt.Errorf("sluice: %d profiles are being made: try again later", profilesAtOnce)
	}
	conn, err := source.dial(slot, generation)
	if err == nil {
		p := &profile{conn: conn}
		p.close = sync.OnceValue(func() error { <-room; return conn.Close() })
		if err = p.ask(ctx, name, took); err != nil {
			p.Close()
		}
	} else {
		<-room
	}
	var late interface{ Timeout() bool }
	switch who := fmt.Sprintf("sluice: worker %d.%d", slot, generation); {
	case err == nil:
		return 0, nil
	case errors.Is(err, supervise.ErrNoWorker), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return sluice.StatusNotFound, fmt.Errorf("%s has ended, or makes no profiles", who)
	case errors.Is(err, supervise.ErrSilent), errors.As(err, &late) && late.Timeout():
		return sluice.StatusGatewayTimeout, fmt.Errorf("%s does not answer; SIGQUIT makes it print its stacks and end", who)
	default:
		return sluice.StatusServiceUnavailable, fmt.Errorf("%s cannot be asked: %w", who, err)
	}
}

// findWorker returns the worker whom the text SLOT or SLOT.GEN names.
func findWorker(s *Status, text string) (slot, generation int, ok bool) {
	first, second, hasGeneration := strings.Cut(text, ".")
	slot, err := strconv.Atoi(first)
	if err == nil && hasGeneration {
		generation, err = strconv.Atoi(second)
	}
	if err != nil {
		return 0, 0, false
	}
	for i := range s.Workers { // the one that serves comes first
		if w := &s.Workers[i]; w.Slot == slot && (!hasGeneration || w.Generation == generation) {
			return slot, w.Generation, true
		}
	}
	return 0, 0, false
}

// measured returns how long a worker measures before it answers.
func measured(name string, args *sluice.Args) (time.Duration, error) {
	byDefault := 1.0
	if name == "profile" {
		byDefault = 30
	}
	seconds, err := strconv.ParseFloat(string(args.Peek("seconds")), 64)
	switch {
	case err != nil || seconds <= 0: // the worker answers, or takes its default
		seconds = byDefault
	case !(seconds <= profileLongest.Seconds()):
		return 0, fmt.Errorf("sluice: seconds may be up to %v", profileLongest.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// A profile is the answer of a worker, which is sent on part by part.
type profile struct {
	conn  net.Conn
	body  io.Reader
	close func() error
}

// ask asks for a profile, and answers ctx with it. The response then owns p.
func (p *profile) ask(ctx *sluice.RequestCtx, name string, took time.Duration) error {
	p.conn.SetDeadline(time.Now().Add(took + profilePatience))
	stop := context.AfterFunc(ctx, func() { p.conn.Close() })
	defer stop()
	var req sluice.Request
	req.SetHost("worker")
	req.URI().SetPath(profilePath + name)
	req.URI().SetQueryStringBytes(ctx.URI().QueryString())
	w := bufio.NewWriter(p.conn)
	if err := errors.Join(req.Write(w), w.Flush()); err != nil {
		return err
	}
	resp := &sluice.Response{StreamBody: true}
	if err := resp.Read(bufio.NewReader(p.conn)); err != nil {
		return err
	}
	ctx.SetStatusCode(resp.StatusCode())
	for _, field := range []string{sluice.HeaderContentType, sluice.HeaderContentDisposition, sluice.HeaderXContentTypeOptions} {
		if value := resp.Header.Peek(field); len(value) > 0 {
			ctx.Response.Header.SetBytesV(field, value)
		}
	}
	p.body = resp.BodyStream()
	ctx.SetBodyStream(p, resp.Header.ContentLength())
	return nil
}

// Read implements io.Reader.
func (p *profile) Read(b []byte) (int, error) {
	p.conn.SetReadDeadline(time.Now().Add(profilePatience))
	return p.body.Read(b)
}

// Close implements io.Closer.
func (p *profile) Close() error { return p.close() }

// dial implements profiled.
func (p *Prefork) dial(slot, generation int) (net.Conn, error) {
	m := p.master()
	if m == nil {
		return nil, ErrNotMaster
	}
	stream, err := m.Stream(slot, generation)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return net.FileConn(stream)
}

// dial implements profiled.
func (s *Single) dial(int, int) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go serveProfiles(theirs, s.Profiles, s.logTo())
	return ours, nil
}

// serveStream answers in a worker on a stream of the master.
func (p *Prefork) serveStream(stream *os.File) {
	conn, err := net.FileConn(stream)
	stream.Close()
	switch {
	case err != nil:
		p.logger().Printf("worker: a request for a profile: %v", err)
	case p.Profiles == nil:
		conn.Close()
	default:
		serveProfiles(conn, p.Profiles, p.logger())
	}
}

// serveProfiles answers requests for profiles until the other end is closed.
func serveProfiles(conn net.Conn, handler sluice.RequestHandler, log Logger) {
	defer conn.Close()
	s := &sluice.Server{
		Handler: handler, Engine: sluice.EnginePerConn, Logger: log,
		ReadTimeout: profilePatience, IdleTimeout: profilePatience, WriteTimeout: profilePatience,
	}
	if err := s.ServeConn(conn); err != nil {
		log.Printf("a request for a profile: %v", err)
	}
}
