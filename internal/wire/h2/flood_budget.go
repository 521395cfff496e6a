package h2

import "encoding/binary"

// A Cost is an amount of work that a peer causes and that costs it less than us. Its
// unit is 1/32 Token.
type Cost uint16

// Token is what a frame costs that we have to look at and that brings nothing.
const Token Cost = 32

// What a peer is charged. The CVE names a published attack by the same means.
const (
	CostReset        = 5 * Token // RST_STREAM of an unanswered stream (CVE-2023-44487), or one of ours for an error of the peer (CVE-2025-8671)
	CostMalformed    = 5 * Token // a malformed field list (CVE-2019-9516)
	CostRefused      = Token     // a stream beyond the limit
	CostSettings     = Token     // SETTINGS (CVE-2019-9515)
	CostPing         = Token     // PING (CVE-2019-9512)
	CostIgnored      = Token     // an unknown frame, PRIORITY, PRIORITY_UPDATE (CVE-2019-9513)
	CostEmptyFrame   = Token     // HEADERS or DATA without a byte that end nothing (CVE-2019-9518)
	CostTinyData     = Token     // less than tinyData in a buffered body
	CostSmallUpdate  = Token     // WINDOW_UPDATE of less than smallUpdate (CVE-2019-9511)
	CostDecodedKiB   = Token     // each KiB of a field list beyond its limit (CVE-2016-6581)
	costPaddingBytes = 256       // so many bytes of padding cost one Token
)

// Bounds that go with the costs.
const (
	tinyData    = 64      // bytes of a DATA frame
	smallUpdate = 1 << 10 // increment of a WINDOW_UPDATE
)

// What a peer has and gets back.
const (
	budgetSize      = 2000 * Token // of a new connection, and the most there is
	budgetTick      = 5_000_000    // nanoseconds in which one Token comes back: 200 in a second
	RequestRefund   = Token        // a finished request
	refundBodyBytes = 1 << 10      // so many bytes of a request's body give back a Token
	packedBudget    = 6

	// What a DATA frame may be answered with: credit for the stream and for the connection,
	// and a PING by which the peer measures the round trip, as the clients of gRPC do.
	echoesOfData = 3
	maxEchoes    = 30_000 // of 160 MiB, which a client may have received and not read yet

	maxLate = 1 << 20
)

// A Budget bounds the work that a peer causes with frames that cost it little. When it
// is used up, the connection ends with ErrExcessiveLoad. The zero value is full. Times are
// nanoseconds of a clock that does not go back.
type Budget struct {
	tick    uint32 // time of the last refill, in budgetTick
	charged Cost
	acks    uint16
	echoes  uint16 // answers to our DATA that the peer has not given
	late    uint32 // bytes of abandoned content that may come in small frames
}

// maxAcks is how many acknowledgements may wait for a peer that does not read.
const maxAcks = 1000

// Charge takes cost from the budget at the time now. It returns ErrExcessiveLoad if the budget is used up.
func (b *Budget) Charge(now int64, cost Cost) *Error {
	tick := uint32(now / budgetTick)
	// A negative time is that of another process, after a hand-over.
	if refill := int32(tick - b.tick); refill > 0 {
		b.Refund(Cost(min(refill, int32(budgetSize/Token))) * Token)
	}
	b.tick = tick
	if cost > budgetSize-b.charged {
		b.charged = budgetSize
		return ErrExcessiveLoad
	}
	b.charged += cost
	return nil
}

// SentData says that the peer gets a DATA frame that its windows have not made small: some
// answers to it cost nothing. A peer that returns a few bytes of window at a time gets none.
func (b *Budget) SentData() { b.echoes = min(b.echoes+echoesOfData, maxEchoes) }

// ChargeEcho is Charge for a frame that may answer DATA.
func (b *Budget) ChargeEcho(now int64, cost Cost) *Error {
	if b.echoes > 0 {
		b.echoes--
		return nil
	}
	return b.Charge(now, cost)
}

// ChargeUpdate charges for a WINDOW_UPDATE.
func (b *Budget) ChargeUpdate(now int64, increment uint32) *Error {
	if increment < smallUpdate {
		return b.ChargeEcho(now, CostSmallUpdate)
	}
	return nil
}

// ChargeData charges for a DATA frame. isStreamed: its content is read while it arrives, so
// that small frames do not make the request take longer.
func (b *Budget) ChargeData(now int64, ev *Event, isStreamed bool) *Error {
	cost := Cost(ev.Padding) * Token / costPaddingBytes
	size := ev.Length - uint32(ev.Padding)
	switch isLast := ev.Has(EndStream); {
	case size == 0 && !isLast:
		cost += CostEmptyFrame
	case size >= tinyData, isLast, isStreamed:
	case size <= b.late:
		b.late -= size
	default:
		cost += CostTinyData
	}
	return b.Charge(now, cost)
}

// Abandon says that content is not read any more that was read while it arrived. The peer may
// have sent the rest of its window before it learns of that, in small frames: they still cost
// nothing.
func (b *Budget) Abandon(window int32) { b.late = min(b.late+uint32(max(window, 0)), maxLate) }

// ChargeSettings charges for SETTINGS whose acknowledgement was added to what waits to be sent. It
// returns ErrExcessiveLoad if too many acknowledgements wait.
func (b *Budget) ChargeSettings(now int64) *Error {
	if b.acks++; b.acks > maxAcks {
		return ErrExcessiveLoad
	}
	return b.Charge(now, CostSettings)
}

// ChargePing is ChargeSettings for PING, which may answer DATA.
func (b *Budget) ChargePing(now int64) *Error {
	if b.acks++; b.acks > maxAcks {
		return ErrExcessiveLoad
	}
	return b.ChargeEcho(now, CostPing)
}

// HasAcks reports whether an acknowledgement waits to be sent.
func (b *Budget) HasAcks() bool { return b.acks > 0 }

// AcksSent says that nothing waits to be sent any more.
func (b *Budget) AcksSent() { b.acks = 0 }

// Refund gives back cost, up to the size of a new Budget.
func (b *Budget) Refund(cost Cost) { b.charged -= min(cost, b.charged) }

// RefundBody gives back what n bytes of a request's body are worth. A frame of less than 32
// bytes is worth nothing.
func (b *Budget) RefundBody(n uint32) {
	b.Refund(Cost(min(n, uint32(budgetSize/Token)*refundBodyBytes) / (refundBodyBytes / uint32(Token))))
}

// Tokens returns how many Tokens there were after the last Charge or Refund.
func (b *Budget) Tokens() int { return int((budgetSize - b.charged) / Token) }

// AppendPacked appends the Budget as 6 bytes, without what either side has to answer.
func (b *Budget) AppendPacked(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(b.charged))
	return binary.BigEndian.AppendUint32(dst, b.tick)
}

// CutBudget returns the Budget that AppendPacked has put at the beginning of in, and what
// follows. ok is false if in does not begin with one.
func CutBudget(in []byte) (b Budget, rest []byte, ok bool) {
	if len(in) < packedBudget {
		return b, nil, false
	}
	b.charged, b.tick = Cost(binary.BigEndian.Uint16(in)), binary.BigEndian.Uint32(in[2:])
	if b.charged > budgetSize {
		return Budget{}, nil, false
	}
	return b, in[packedBudget:], true
}
