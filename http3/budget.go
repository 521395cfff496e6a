package http3

import "github.com/sluicehttp/sluice/internal/wire/h3"

// A budget bounds the work that a client causes with what costs it little. When it is used up,
// the connection ends with H3_EXCESSIVE_LOAD. The zero value is full. Conn.mu guards it.
type budget struct {
	charged int
	tick    int64 // of the last refill
}

// What a client is charged, in tokens.
const (
	costReset     = 5 // a request that it gave up before the answer
	costMalformed = 5
	costIgnored   = 1 // a frame or stream without a meaning, and every skippedPerToken bytes of it
	costRefused   = 1
	costLargeHead = 20 // a head beyond the limits: its packets were received, and it is answered
	costTinyData  = 1  // DATA of less than tinyData bytes, of a body that is kept
)

const (
	budgetSize      = 2000
	budgetTick      = 5_000_000 // nanoseconds in which a token comes back
	requestRefund   = 1
	tinyData        = 64
	skippedPerToken = 256
)

// charge takes n tokens at the time now. It returns an error if there are not as many.
func (b *budget) charge(now int64, n int) *h3.Error {
	tick := now / budgetTick
	b.refund(int(min(tick-b.tick, budgetSize)))
	b.tick = tick
	if b.charged += n; b.charged > budgetSize {
		b.charged = budgetSize
		return h3.ErrNothing
	}
	return nil
}

// refund gives n tokens back.
func (b *budget) refund(n int) { b.charged = max(b.charged-n, 0) }
