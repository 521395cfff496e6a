package http2

import (
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A connPhase is how far the life of a connection is.
type connPhase uint8

const (
	phaseOpen     connPhase = iota
	phaseAwaiting           // the first request is awaited, and GOAWAY will follow
	phaseWarned             // GOAWAY announces the end; streams are still accepted
	phaseDraining           // GOAWAY names the last stream; the connection ends with it
	phaseCut                // the same, and the tunnels, which alone were left, are reset
	phaseFailed             // GOAWAY names an error; nothing else is sent
	phaseClosed             // the engine has closed the connection
)

// A block is a field block that arrives.
type block struct {
	stream *Stream // nil: of no request
	kind   fieldlist.Kind
	isOpen bool
	refuse *h2.Error // what the stream is reset with after the block; nil: nothing
}

// A Conn is the engine.Protocol of one HTTP/2 connection.
type Conn struct {
	mu       sync.Mutex
	room     sync.Cond                  // out has become shorter
	prompted atomic.Pointer[streamConn] // those whose Producers have prompted; see takePrompts

	limitsTasks atomic.Bool // Tasks ask before they begin, see admission; they read it without mu
	connState
}

// A connState is what a Conn knows of its connection. Another one gets the Conn when the
// connection sleeps or has ended.
type connState struct {
	conn     engine.Conn
	prompter engine.Prompter
	workers  engine.Workers
	host     Host
	cfg      *Config
	netConn  net.Conn     // valid even after the connection has ended
	facts    server.Facts // Served and Stream change only in Feed

	// Input.
	parser  h2.Parser
	decoder h2.Decoder
	head    fieldlist.Head
	trailer field.Table
	block   block
	own     h2.OwnSettings
	budget  h2.Budget
	window  h2.ReceiveWindow
	growth  h2.Growth
	newest  uint32 // the highest stream of the peer
	last    uint32 // the highest one that was accepted or refused with RST_STREAM
	opened  uint64 // streams that were accepted
	heads   int    // bytes of the heads and trailer sections of all streams
	endings endings

	// Output.
	out        []byte // frames in the order in which they are sent
	encoder    h2.Encoder
	peer       h2.PeerSettings
	sendWindow h2.SendWindow
	ready      h2.Scheduler[Stream]
	early      fieldlist.EarlyPriorities[uint32]
	held       int      // bytes of Stream.held of all streams
	progress   progress // of the content of all streams

	streams openStreams
	admission
	tunnels           int     // how many of them have a Tunnel that outlives Serve
	ended             *Stream // for unlock
	gauge             *gaugeStripe
	counted           int // streams that gauge has
	phase             connPhase
	notifiedStage     server.Stage // what Producers were told
	isBegun           bool         // input was there before Start: Feed follows
	hasPromptingTasks bool         // this Feed has made Tasks that prompt first
	failure           error
	timers
}

// NewConn returns the Protocol of a connection, with its facts. begun is the beginning of the preface, as
// far as another Protocol has used it; nil: no input has come.
func NewConn(conn engine.Conn, host Host, cfg *Config, f server.Facts, begun []byte) *Conn {
	now := clock.Nanos()
	c := newConn(conn, host, cfg, f)
	c.gauge.conns.Add(1)
	c.own, c.peer = h2.NewOwnSettings(), h2.NewPeerSettings()
	c.encoder.Reset(cfg.Pairs)
	initial := c.peer.InitialWindowSize
	c.sendWindow = h2.SendWindow(initial)
	c.window = h2.NewReceiveWindow(now, initial, cfg.ConnWindow, cfg.MaxConnWindow)
	c.out, _ = c.own.Send(c.out, cfg.Settings)
	c.credit(now)
	c.startTimers(now)
	c.isBegun = begun != nil
	if _, _, err := c.parser.Next(begun); err != nil { // it makes no Event
		c.fail(err)
	}
	return c
}

// BeganAt says when the beginning of the preface came that another Protocol has used. Call it
// before the engine has the Conn.
func (c *Conn) BeganAt(start int64) { c.blockDue = start + int64(c.cfg.ReadTimeout) }

// newConn returns a Conn without the state that a connection has from its beginning.
func newConn(conn engine.Conn, host Host, cfg *Config, f server.Facts) *Conn {
	c := acquireConn()
	c.conn, c.prompter, c.workers = conn, conn.Prompter(), conn.Workers()
	c.host, c.cfg, c.gauge = host, cfg, cfg.Gauges.stripe()
	c.netConn, c.facts = conn.NetConn(), f
	c.facts.Version = 2
	c.decoder.Limits, c.decoder.AcceptsConnect = cfg.Limits, cfg.Settings.EnableConnectProtocol
	c.decoder.Reset()
	c.parser.MaxContinuations = cfg.continuations()
	c.growth.Room = int64(cfg.MaxConnWindow)
	c.progress.begin(clock.Nanos())
	return c
}

// Facts returns the facts about the connection. The engine's calls may use them.
func (c *Conn) Facts() *server.Facts { return &c.facts }

// Capabilities implements engine.Protocol.
func (c *Conn) Capabilities() engine.Capabilities {
	return engine.CanStart | engine.CanPrompt | engine.NeverBlocks | engine.IsDuplex | engine.SaysGoodbye | engine.CanPack
}

// Start implements engine.Starter. It sets the deadline of the preface and the time-out
// of writes, and has our SETTINGS sent. If input was there, Feed does that.
func (c *Conn) Start() engine.Next {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.SetWriteTimeout(c.cfg.StallTimeout)
	c.arm()
	if !c.isBegun {
		c.prompter.Prompt()
	}
	return engine.Read
}

// unlock unlocks mu, and then ends the requests that are over.
func (c *Conn) unlock() {
	if c.limitsTasks.Load() {
		c.resume()
	}
	s := c.ended
	c.ended = nil
	c.countStreams()
	c.mu.Unlock()
	for s != nil {
		next := s.next
		s.closeProducer()
		s.exchange.end()
		s = next
	}
}

// IsQuiet reports whether the preface has come, no request is open, and nothing has failed.
func (c *Conn) IsQuiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isPrefaced && c.streams.count() == 0 && c.phase < phaseFailed
}

// Feed implements engine.Protocol.
func (c *Conn) Feed(in []byte) (used int, next engine.Next) {
	c.mu.Lock()
	defer c.unlock()
	c.hasPromptingTasks = false
	now := clock.Nanos()
	for used < len(in) && c.phase < phaseFailed {
		n, ev, err := c.parser.Next(in[used:])
		used += n
		if err == nil {
			if ev.Kind == h2.EventNone {
				break
			}
			err = c.handle(&ev, now)
		}
		if err != nil {
			c.fail(err)
		}
	}
	if len(c.out) > outLimit {
		c.fail(h2.ErrExcessiveLoad)
	}
	c.inputHandled(now)
	c.arm()
	if c.hasOutput() && !(c.hasPromptingTasks && c.phase == phaseOpen) {
		return len(in), engine.Run
	}
	return len(in), engine.Read // with output, a Task prompts as soon as it runs
}

// handle acts on ev. An error ends the connection.
func (c *Conn) handle(ev *h2.Event, now int64) *h2.Error {
	switch ev.Kind {
	case h2.EventHeaders:
		return c.headersReceived(ev, now)
	case h2.EventData:
		return c.dataReceived(ev, now)
	case h2.EventSetting:
		return c.settingReceived(ev, now)
	case h2.EventSettingsAck:
		return c.settingsAcked()
	case h2.EventPing:
		c.out = h2.AppendPing(c.out, ev.Ping, true)
		return c.budget.ChargePing(now)
	case h2.EventPingAck:
		c.pingAcked(ev.Ping, now)
		return c.budget.Charge(now, h2.CostIgnored)
	case h2.EventWindowUpdate:
		return c.windowReceived(ev, now)
	case h2.EventReset:
		return c.resetReceived(ev, now)
	case h2.EventPriorityUpdate:
		c.priorityReceived(ev)
		return c.budget.Charge(now, h2.CostIgnored)
	case h2.EventIgnored, h2.EventGoAway: // the peer accepts no stream of ours anyway
		return c.budget.Charge(now, h2.CostIgnored)
	case h2.EventStreamError:
		return c.streamFailed(ev.Stream, ev.Err, now)
	}
	return nil
}

func (c *Conn) settingReceived(ev *h2.Event, now int64) *h2.Error {
	if isLast, err := c.peer.Receive(ev, &c.encoder, !c.isPrefaced); err != nil || !isLast {
		return err
	}
	if c.peer.WindowChanged() {
		for s := range c.streams.each() {
			if !c.peer.Shift(&s.sendWindow) {
				return h2.ErrWindowOverflow
			}
			c.schedule(s)
		}
	}
	c.isPrefaced = true
	c.out = h2.AppendSettingsAck(c.out)
	return c.budget.ChargeSettings(now)
}

func (c *Conn) settingsAcked() *h2.Error {
	before := c.own.InForce
	if err := c.own.Ack(); err != nil {
		return err
	}
	now := &c.own.InForce
	c.decoder.SetLimit(int(now.HeaderTableSize))
	c.parser.MaxFrameSize = now.MaxFrameSize
	for s := range c.streams.each() {
		s.window.Shift(before.InitialWindowSize, now.InitialWindowSize)
	}
	return nil
}

func (c *Conn) priorityReceived(ev *h2.Event) {
	priority := fieldlist.ParsePriority(ev.Payload, fieldlist.DefaultPriority())
	if s := c.streams.find(ev.Stream); s != nil {
		c.prioritize(s, priority)
	} else if ev.Stream > c.newest {
		c.early.Keep(ev.Stream, priority)
	}
}

// prioritize gives s the priority that the peer or the handler has named.
func (c *Conn) prioritize(s *Stream, p fieldlist.Priority) {
	c.ready.Place(&s.node, p)
	s.inOrder = math.MaxInt
}

// removeIfOver removes s if it is over.
func (c *Conn) removeIfOver(s *Stream) {
	if !s.isOver() || s.conn == nil || !c.streams.remove(s) {
		return
	}
	if s.streamConn != nil {
		s.streamConn.stream = nil
	}
	c.heads -= s.head
	c.uncount(s)
	s.window.Shrink(&c.growth)
	if c.block.stream == s {
		c.block.stream, c.block.kind = nil, fieldlist.Unwanted
	}
	s.next, c.ended = c.ended, s
	if c.streams.count() == 0 {
		c.becomeIdle(clock.Nanos())
	}
}

// fail ends the connection with GOAWAY.
func (c *Conn) fail(err *h2.Error) {
	if c.phase >= phaseFailed {
		return
	}
	c.out = h2.AppendGoAway(c.out, c.last, err.Code, err.Error())
	if err.Code == h2.CodeEnhanceYourCalm {
		c.gauge.calmed.Add(1)
	}
	c.failure = err
	c.phase = phaseFailed
	c.breakAll(err)
}

// breakAll ends all streams: nothing more of them can be received or sent. why may be nil.
func (c *Conn) breakAll(why error) {
	for s := range c.streams.each() {
		s.setCause(why)
		c.breakStream(s)
	}
	c.room.Broadcast()
}

// HalfClosed implements engine.Protocol. The peer can neither acknowledge nor open
// windows any more.
func (c *Conn) HalfClosed(out []byte) []byte {
	c.mu.Lock()
	defer c.unlock()
	out = c.takeOut(out)
	c.phase = max(c.phase, phaseFailed)
	c.breakAll(io.EOF)
	return out
}

// Detached implements engine.Protocol; no method returns engine.Detach.
func (c *Conn) Detached(conn net.Conn) { _ = conn.Close() }

// Closed implements engine.Protocol. It releases c unless a Task or a Tunnel has a stream.
func (c *Conn) Closed(err error) {
	c.mu.Lock()
	c.phase = phaseClosed
	c.gauge.conns.Add(-1)
	c.breakAll(err)
	failure, host, isFree := c.failure, c.host, c.streams.count() == 0
	c.unlock()
	host.Closed(errors.Join(failure, err))
	if isFree {
		c.release()
	}
}
