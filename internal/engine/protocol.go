package engine

import "net"

// Next tells the engine what to do after a step of a Protocol.
type Next uint8

const (
	// Read: feed more input. Feed returns it only with all of its input used.
	Read Next = iota
	// Run: a whole request has arrived; call Run. The engine keeps the rest of
	// the input until Run has returned.
	Run
	// Close: write the pending output, then close. If input is left over, the
	// engine lingers (half-closes, and discards input for a bounded time), so
	// that the last answer is not lost to a reset (RFC 9112 section 9.6). The FIN
	// may share a packet with the output.
	Close
	// CloseQuiet: like Close, but the peer has said that it sends no more. The
	// engine need not look for input that has come since its last read.
	CloseQuiet
	// CloseLinger: like Close, but always linger, because the peer is known to
	// be still sending.
	CloseLinger
	// Abort: close at once and discard the pending output.
	Abort
	// Detach: write the pending output, then pass the connection and its unread
	// input to Protocol.Detached, on a goroutine that may block for ever.
	Detach
	// Switch: write the pending output, then pass the connection and its unread
	// input to the Protocol that Switcher.Successor returns. Only Feed, Run and
	// Prompted of a Switcher may return it.
	Switch
	// EndOutput: write the pending output and then the end of all output (FIN), and go on as
	// after Read. The Protocol appends no output afterwards. Only a HalfCloser may return it.
	EndOutput
)

// Closes reports whether n closes the connection after the output is written.
func (n Next) Closes() bool { return n == Close || n == CloseQuiet || n == CloseLinger }

// A Protocol is the state machine of one connection. The engine never calls it
// concurrently, except for callbacks for which Conn says so.
type Protocol interface {
	// Feed parses input. It consumes used bytes of in and must not retain in.
	// With next == Read, used == len(in).
	Feed(in []byte) (used int, next Next)
	// Run handles the request that Feed completed, appends the answer to out, and
	// returns out. It may block, and may use Conn.Read and Conn.Write. Before
	// Conn.Write, it must write the bytes in out, to keep the order. Run must not
	// panic.
	Run(out []byte) ([]byte, Next)
	// Pause is called before the engine waits for input. The Protocol releases
	// everything that an idle connection does not need, unless it is a Cooler. The
	// result reports whether the connection is between requests: nothing of the next
	// request has arrived, and nothing of the last one is left. Then the connection can
	// be closed, or passed to another process, without loss.
	Pause() (isIdle bool)
	// HalfClosed is called when the peer has ended its input (FIN) and the engine
	// waits for input. It appends the bytes to send before closing to out.
	HalfClosed(out []byte) []byte
	// TimedOut is called when the deadline of SetReadDeadline has passed during a
	// wait for input. The deadline is then cleared. TimedOut appends the bytes to
	// send (a 408, a ping, or none) to out. next is Close, CloseLinger or Abort, or
	// Read or Run to continue; TimedOut may set another deadline.
	TimedOut(out []byte) ([]byte, Next)
	// Detached takes ownership of the connection after Detach. Reads on c return
	// the unread input first. The engine no longer knows the connection and does
	// not close it. Detached is called without locks on the connection's goroutine.
	Detached(c net.Conn)
	// Closed is the last call, made exactly once, after the descriptor was
	// closed or detached. err is nil for an orderly end.
	Closed(err error)
	// Capabilities names the optional interfaces that the engine may use. An engine
	// calls it once, when it gets the Protocol from Open, Wake or Successor, before
	// any other call. The result is the same for all of the Protocol's life.
	Capabilities() Capabilities
}

// Capabilities is a set of what a Protocol can do beyond the methods of Protocol.
// The Protocol implements the interface that a member names. An engine does not
// look for an interface whose member is missing.
type Capabilities uint16

const (
	CanStart   Capabilities = 1 << iota // Starter
	CanSwitch                           // Switcher
	CanRewind                           // Rewinder
	CanSleep                            // Sleeper; the Acceptor is a Waker
	CanPrompt                           // Prompted
	CanReceive                          // Receiver
	CanPack                             // Packer
	CanCool                             // Cooler
	CanReuse                            // Reusable
	// NeverBlocks: no method of the Protocol blocks, because its work is in Tasks.
	// MaxWorkers does not limit the calls of its methods; otherwise Tasks that wait
	// for input of their connection could keep all workers from reading it.
	NeverBlocks
	// IsDuplex: the engine calls Feed also while pending output waits for the peer
	// to read (RFC 9113 section 5.2.2). Feed may then be called again after it has
	// returned Run; Run is called once, when the output is written. The Protocol
	// bounds what it stores and what it answers.
	IsDuplex
	// SaysGoodbye: the Protocol, which is a Prompted, tells its peer before its
	// connection is closed. Shutdown does not close its idle and sleeping connections,
	// but calls Prompted, which sees StageShutDown. Afterwards Pause returns false
	// until the Protocol ends the connection, with any Next but Read; if Pause returns
	// true, the engine closes the connection. The context of Shutdown bounds the time.
	SaysGoodbye
	CanStop      // Stopper
	CanHalfClose // HalfCloser
)

// Has reports whether c contains any of what.
func (c Capabilities) Has(what Capabilities) bool { return c&what != 0 }

// A Starter is a Protocol with a step before the first input. Engines call Start
// once, right after Open or Successor. They act on Detach and Abort at once; Read
// continues as usual. Root uses it for protocols negotiated by ALPN, whose server
// may send first.
type Starter interface {
	Start() Next
}

// A Switcher is a Protocol that another Protocol may replace on its connection.
type Switcher interface {
	// Successor is called once after Switch. It is the last call on this Protocol:
	// Closed is called on the successor only. The engine calls the successor's
	// Start if it is a Starter, and feeds it the unread input. Deadlines and the
	// write time-out remain set. If the successor is a Sleeper, the Acceptor's Wake
	// must recognise by the Memo which Protocol to return.
	//
	// DetachIdle does not detach connections that have switched, unless the
	// successor is a Packer.
	Successor() Protocol
}

// A Rewinder is a Protocol that can return the beginning of a request unparsed. If
// Pause returned false, an engine may call CanRewind and, with no other call in
// between, Rewind. Rewind returns the input that was fed since the end of the last
// request; the caller owns it. The connection is then between requests. Root's
// Conn of internal/server/http1 implements it for an incomplete head; DetachIdle calls it.
type Rewinder interface {
	CanRewind() bool
	Rewind() []byte
}

// A Sleeper is a Protocol whose idle connections need only a Memo. After a Pause
// that returned true, an engine may call Sleep and drop the Protocol, which
// returns itself to its pool. Sleep is the last call on it; Closed is not called.
// When an event arrives for the connection, the engine gets another Protocol from
// its Acceptor, which is a Waker. Deadlines and the write time-out remain set.
// If Sleep returns false, the engine retains the Protocol during this wait, and
// may ask again after the next Pause. Conn of internal/server/http1 implements it. The event
// engines call it for each wait, netconn for long ones.
type Sleeper interface {
	Sleep() (m Memo, ok bool)
}

// A Reusable is a Sleeper that an engine may keep for the next connection of the same
// Acceptor that it wakes. That saves the way to the pools of both, and back. Conn of
// internal/server/http1 and the session of package websocket implement it.
type Reusable interface {
	// Retire is Sleep, but the Protocol stays the engine's, which may drop it at any time.
	Retire() Memo
	// Release returns a Protocol that was retired to its pool. It is the last call on it.
	Release()
	// Reuse is Wake of the Acceptor, for a Protocol that was retired. The result false
	// means that m is of another kind of Protocol, and that Wake must be called. arrived is
	// when the engine found out that there is input, as of clock.Nanos; 0 if it does not know.
	Reuse(c Conn, m Memo, arrived int64) bool
}

// A Cooler is a Protocol that keeps memory for the next request of a connection, although
// Pause has returned true. An engine calls Cool when such a wait has lasted a while, unless
// it calls Sleep. Conn of internal/server/http1 implements it.
type Cooler interface {
	// Cool releases that memory. Between Pause and Cool there may have been input, but no
	// whole request.
	Cool()
}

// A Receiver is a Protocol that provides memory for its input, so that a large
// message is read into the place where it stays.
type Receiver interface {
	// Room returns where the engine may read the next input to; nil means a buffer
	// of the engine. The engine calls it before it reads, unless the Protocol is
	// between requests. The room stays
	// valid until the next call of Feed, Run, Prompted, TimedOut or Closed. Feed
	// gets the part of it that was filled, from its beginning, and must use all of
	// it. Feed may also get input that was read before into memory of the engine.
	Room() []byte
}

// A Stopper is a Protocol that does not want input at times, because what came before has not
// gone on yet. Engines whose Conns have a Target ask it before each read; others do not.
type Stopper interface {
	// Stops reports whether the engine must not read now. If the last answer was true, the
	// Protocol calls Engine.ReadOn when that changes. While Stops returns true without the
	// end of the input, Pause returns false. Meanwhile the engine does not notice that the
	// peer goes; the Protocol bounds the time.
	Stops() bool
}

// A HalfCloser is a Protocol whose connection may stay open in one direction after the other has
// ended. Engines whose Conns have a Target call PeerEnded instead of HalfClosed, and do what
// EndOutput says; others treat it as any other Protocol.
type HalfCloser interface {
	// PeerEnded is called when the peer has ended its input (FIN), perhaps more than once. It
	// appends output, as Run does. After Read the connection stays open for output.
	PeerEnded(out []byte) ([]byte, Next)
}

// A Packer is a Protocol that can move to another process with its connection.
type Packer interface {
	// Pack appends the state of an idle connection to dst, or of one whose Rewinder
	// is about to Rewind. DetachIdle calls it before Closed, and passes the result
	// on; Unpacker.Unpack restores the Protocol from it. If ok is false, the
	// connection stays.
	Pack(dst []byte) (state []byte, ok bool)
}

// A Memo is the state that an engine keeps for the Protocol of an idle connection.
// It holds no pointers, so that the garbage collector need not scan a million of
// them. Only the Protocol interprets the fields.
type Memo struct {
	ID     uint64
	Served uint64
	Opened int64
}

// A Prompted is a Protocol that can send without input from the peer. After a call
// of Prompter.Prompt, the engine calls Prompted once, when no other call of the
// Protocol is running and all pending output is written. The rules of Run apply to
// it. Several calls of Prompt before it cause one call of Prompted. After Read, the
// connection continues what it did before.
type Prompted interface {
	Prompted(out []byte) ([]byte, Next)
}

// A Prompter makes the engine call Prompted of its Protocol. It may be called on any
// goroutine, never blocks, and does nothing when the connection has ended.
type Prompter interface {
	Prompt()
}
