package http2

import (
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// An admission bounds the memory of responses that wait for the peer: for a window, or until it
// reads. A Request keeps its response until its stream ends, so this memory is counted from
// Respond to End. When it is much, Requests that are complete wait before they are served:
//
//   - Without room, those begin whose windows are open, and only as much as the peer takes
//     meanwhile.
//   - Those whose windows are closed or small, so that little of their responses could be sent,
//     begin only if there is room for what they are expected to need.
//
// A Request that is being served is not stopped. Conn.mu guards the fields.
type admission struct {
	waiting     int           // bytes of Stream.counted of all streams
	expected    int           // bytes that a response is expected to need
	begun       int           // streams that are admitted; see memoryState
	deferred    int           // streams of ownerAdmission
	lastBegun   int64         // when the last one was admitted, in Nanos
	drainCredit int           // bytes that the peer has taken since limitsTasks, less the responses of memoryCredit
	grace       time.Duration // how long streams that lack a window count as begun
}

const (
	// maxWaiting is how many bytes of responses wait on a connection before Requests wait. One
	// response may be larger.
	maxWaiting = 1 << 20
	// leastRoom is how much room there must be for a response of unknown size.
	leastRoom = maxWaiting / 8
	// taskMemory is about what a Task needs that waits.
	taskMemory = 32 << 10
	// openGrace is how long Requests that are served count as such that need memory soon. They
	// may wait for a Request that is deferred.
	openGrace = 20 * time.Millisecond
	// minGrace is the same for those whose windows are closed or small: each of them may keep
	// the whole of a response. It doubles until maxGrace while they do not answer.
	minGrace = 250 * time.Millisecond
	maxGrace = time.Second
	// smallWindow is what a stream's window has at least, unless the peer has reduced it (RFC
	// 9113 section 6.9.2).
	smallWindow = 1<<16 - 1
	// deferredTime is how long nothing begins before the Requests that are deferred rest.
	deferredTime = 250 * time.Millisecond
)

// stored returns how many bytes of responses wait for the peer.
func (c *Conn) stored() int { return c.waiting + c.held }

// limitTasks makes Tasks ask, if they do not yet. expected is what a response needs.
func (c *Conn) limitTasks(expected int) {
	if !c.limitsTasks.Load() {
		c.limitsTasks.Store(true)
		c.expected, c.drainCredit, c.grace = expected, 0, minGrace
	}
}

// lacksWindow reports whether little of a response of s could be sent, so that s would keep the
// rest.
func (c *Conn) lacksWindow(s *Stream) bool {
	return c.sendWindow < directSize || s.sendWindow < smallWindow
}

// mayBegin reports whether s may be served now, and counts it then.
func (c *Conn) mayBegin(s *Stream) bool {
	lacksWindow := c.lacksWindow(s)
	if s.isAdmitted() || s.output == outputReset || !lacksWindow && c.stored() <= maxWaiting/2 {
		return true
	}
	if !c.hasRoom(lacksWindow) {
		return false
	}
	if !s.isConnect { // a tunnel holds no more than Stream.held
		if s.memory = memoryCredit; lacksWindow {
			s.memory = memoryAdmitted
		}
		c.begun++
		now := clock.Nanos()
		c.lastBegun = now
		s.progress.begin(now)
		if c.roomDueAt(c.admittedUntil(s)) {
			c.prompter.Prompt() // for the timers
		}
	}
	return true
}

// hasRoom reports whether there is room for the response of one more stream.
func (c *Conn) hasRoom(lacksWindow bool) bool {
	room := maxWaiting - c.stored()
	if !lacksWindow {
		room = max(room, c.drainCredit)
	}
	return (c.begun+1)*c.expected <= room || c.begun == 0 && (room >= leastRoom || !lacksWindow && c.drainCredit >= 0)
}

// isPostponed tells the Task of s whether s may not be served now. Then another Task will be
// made.
func (s *Stream) isPostponed() bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mayBegin(s) {
		return false
	}
	c.postpone(s, clock.Nanos())
	c.prompter.Prompt() // for the timers
	return true
}

// postpone has s wait until there is room.
func (c *Conn) postpone(s *Stream, now int64) {
	s.owner = ownerAdmission
	c.deferred++
	s.progress.begin(now)
	if c.roomDue == 0 {
		c.roomDue = now + int64(deferredTime)
	}
}

// resume makes Tasks of the streams for which there is room, the oldest first.
func (c *Conn) resume() {
	if c.deferred > 0 && c.hasRoom(false) {
		for _, o := range c.streams.all[c.streams.first:] {
			if s := o.stream; s.owner == ownerAdmission && c.mayBegin(s) {
				c.deferred--
				s.owner = ownerTask
				c.workers.Go(s)
			}
		}
	}
	if c.deferred+c.begun == 0 && c.stored() <= maxWaiting/2 {
		c.limitsTasks.Store(false)
	}
}

// store counts what the Request of s holds for a response with content, which waits, and more
// bytes.
func (c *Conn) store(s *Stream, content []byte, more int) {
	n, isOwn := s.exchange.holds()
	if !isOwn && !c.isShared(s, content) {
		n += len(content)
	}
	c.count(s, n+more, len(s.held))
	s.memory = memoryNone
}

// count counts n bytes for s, which also holds so many.
func (c *Conn) count(s *Stream, n, held int) {
	c.waiting += n - s.counted
	s.counted = n
	if c.stored() > maxWaiting/2 {
		c.limitTasks(n + held)
	}
	c.answered(s, n+held)
}

// isShared reports whether content is in memory that another response waits with.
func (c *Conn) isShared(s *Stream, content []byte) bool {
	if len(content) == 0 {
		return true
	}
	end := &content[len(content)-1] // what was sent is cut off at the beginning
	for other := range c.streams.each() {
		if n := len(other.last); n > 0 && other != s && &other.last[n-1] == end {
			return true
		}
	}
	return false
}

// isAdmitted reports whether Conn.begun counts s.
func (s *Stream) isAdmitted() bool { return s.memory >= memoryAdmitted }

// answered ends the admission of s, whose response needs n bytes of memory.
func (c *Conn) answered(s *Stream, n int) {
	if !s.isAdmitted() {
		return
	}
	usesCredit := s.memory == memoryCredit
	s.memory = memoryNone
	c.begun--
	c.expected = max(n, c.expected/2, directSize)
	if usesCredit {
		c.drainCredit -= n
	}
}

// blocked is called when s, whose response is sent in parts, waits with what it holds. Its Task
// has a stack, and a buffer for the next part.
func (c *Conn) blocked(s *Stream) {
	if s.counted > 0 {
		return
	}
	n, _ := s.exchange.holds()
	c.count(s, n+taskMemory, len(s.held))
	s.memory = memoryBehind
	if c.limitsTasks.Load() {
		c.resume()
	}
}

// caughtUp is called when the peer has taken what s held. A response that goes on for long, such
// as one of events, does not count while it waits for its handler.
func (c *Conn) caughtUp(s *Stream) {
	if s.memory == memoryBehind {
		c.uncount(s)
	}
}

// uncount forgets what a stream has held that is over.
func (c *Conn) uncount(s *Stream) {
	c.waiting -= s.counted
	s.counted = 0
	c.answered(s, 0)
	s.memory = memoryNone
}

// timeOutRoom admits others beside the streams that were admitted long ago.
func (c *Conn) timeOutRoom(now int64) {
	if c.roomDue == 0 || c.roomDue > now {
		return
	}
	c.roomDue = 0
	isOld := now-c.lastBegun >= int64(deferredTime)
	slower := min(2*c.grace, maxGrace)
	for s := range c.streams.each() {
		switch due := c.admittedUntil(s); {
		case s.isAdmitted() && due > now:
			c.roomDueAt(due)
		case s.isAdmitted():
			s.memory = memoryNone
			c.begun--
			if c.lacksWindow(s) {
				c.grace = slower
			}
		case s.owner != ownerAdmission:
		case isOld:
			s.exchange.restUntilServed()
		default:
			c.roomDueAt(now + int64(deferredTime))
		}
	}
}

// admittedUntil returns when s, which is admitted, does not count any more.
func (c *Conn) admittedUntil(s *Stream) int64 {
	if c.lacksWindow(s) {
		return s.progress.at + int64(c.grace)
	}
	return s.progress.at + int64(openGrace)
}

// roomDueAt makes roomDue due if that is earlier, and reports whether it is.
func (c *Conn) roomDueAt(due int64) (isEarlier bool) {
	isEarlier = c.roomDue == 0 || due < c.roomDue
	if isEarlier {
		c.roomDue = due
	}
	return isEarlier
}
