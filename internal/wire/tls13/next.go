package tls13

import "encoding/binary"

const (
	// maxProtected is the longest protected content (RFC 8446 section 5.2).
	maxProtected = MaxData + 256
	// maxInner is the longest content with its type and padding (RFC 8446 section 5.4).
	maxInner = MaxData + 1
	// MaxRecord is the size of the longest record, in bytes.
	MaxRecord = HeaderSize + maxProtected
	// maxFruitless is how many records in a row may bring no data.
	maxFruitless = 16
	// maxTicket is the size of the longest NewSessionTicket that a client passes over.
	maxTicket = 1 << 16
)

// Next opens the first record of in, which begins with a record. It decrypts in place: n
// bytes of in are used up, and data is a part of them. If n is 0 without an error, more of
// the record is to come: Need says how much. Records that bring no data have n > 0 and no
// data.
//
// The error is ErrEnd after close_notify, a PeerAlert after another alert, or a *Violation;
// each is returned again from then on.
func (l *Layer) Next(in []byte) (data []byte, n int, err error) {
	switch l.receiving {
	case phaseClosed:
		return nil, 0, ErrEnd
	case phaseFailed:
		return nil, 0, l.failure
	}
	n, err = Need(in)
	if err != nil {
		return nil, 0, l.fail(err)
	}
	if n > len(in) {
		return nil, 0, nil
	}
	kind, content, err := l.in.open(in[:n:n])
	if err == nil {
		data, err = l.take(kind, content)
	}
	if err != nil {
		return nil, n, l.fail(err)
	}
	return data, n, nil
}

// Need returns the size of the record that in begins with, as far as it is known: at least
// that of its header. The error is a *Violation.
func Need(in []byte) (int, error) {
	if len(in) > 0 && in[0] != TypeApplication {
		return 0, ErrType
	}
	if len(in) < HeaderSize {
		return HeaderSize, nil
	}
	size := int(binary.BigEndian.Uint16(in[3:]))
	switch {
	case size > maxProtected:
		return 0, ErrLength
	case size < tagSize:
		return 0, ErrMAC
	}
	return HeaderSize + size, nil
}

// fail ends receiving.
func (l *Layer) fail(err error) error {
	if err == ErrEnd {
		l.receiving = phaseClosed
		return err
	}
	l.receiving, l.failure = phaseFailed, err
	return err
}

// open decrypts a record, and returns its type and content.
func (h *half) open(record []byte) (kind byte, content []byte, err error) {
	nonce, err := h.next()
	if err != nil {
		return 0, nil, err
	}
	header, protected := record[:HeaderSize], record[HeaderSize:]
	inner, err := h.aead.Open(protected[:0], nonce, protected, header)
	switch {
	case err != nil:
		return 0, nil, ErrMAC
	case len(inner) > maxInner:
		return 0, nil, ErrLength
	}
	for i := len(inner) - 1; i >= 0; i-- { // padding follows the type
		if inner[i] != 0 {
			return inner[i], inner[:i], nil
		}
	}
	return 0, nil, ErrContent
}

// take uses the content of a record.
func (l *Layer) take(kind byte, content []byte) (data []byte, err error) {
	if l.isInMessage() && kind != TypeHandshake {
		return nil, ErrInterrupted
	}
	if kind == TypeApplication && len(content) > 0 {
		l.fruitless = 0
		return content, nil
	}
	if l.fruitless++; l.fruitless > maxFruitless {
		return nil, ErrFruitless
	}
	switch kind {
	case TypeApplication:
		return nil, nil
	case TypeAlert:
		return nil, takeAlert(content)
	case TypeHandshake:
		return nil, l.takeHandshake(content)
	}
	return nil, ErrContent
}

// takeAlert returns the error that an alert stands for.
func takeAlert(content []byte) error {
	switch {
	case len(content) == 0:
		return ErrContent // RFC 8446 section 5.1
	case len(content) != 2:
		return ErrAlert
	}
	switch a := Alert(content[1]); a {
	case CloseNotify:
		return ErrEnd
	case UserCanceled: // close_notify follows
		return nil
	default: // all are fatal, whatever the level says
		return PeerAlert(a)
	}
}

// isInMessage reports whether a handshake message has come in part.
func (l *Layer) isInMessage() bool { return l.headSize > 0 }

// takeHandshake takes handshake messages, which may come in parts.
func (l *Layer) takeHandshake(content []byte) error {
	if len(content) == 0 {
		return ErrContent // RFC 8446 section 5.1
	}
	for len(content) > 0 {
		if l.headSize < messageHead {
			n := copy(l.head[l.headSize:], content)
			l.headSize += uint8(n)
			content = content[n:]
			if l.headSize < messageHead {
				return nil
			}
			if err := l.beginMessage(); err != nil {
				return err
			}
		}
		n := min(len(content), int(l.rest))
		l.rest -= uint32(n)
		body := content[:n]
		content = content[n:]
		if l.rest > 0 {
			return nil
		}
		l.headSize = 0
		if l.head[0] != typeKeyUpdate {
			continue
		}
		if len(content) > 0 {
			return ErrInterrupted // RFC 8446 section 5.1
		}
		return l.takeUpdate(body[0]) // all of it, since it has one byte
	}
	return nil
}

// beginMessage checks the head of a handshake message.
func (l *Layer) beginMessage() error {
	l.rest = uint32(l.head[1])<<16 | uint32(l.head[2])<<8 | uint32(l.head[3])
	switch {
	case l.head[0] == typeKeyUpdate && l.rest != 1:
		return ErrUpdateSize
	case l.head[0] == typeKeyUpdate:
		return nil
	case l.head[0] == typeTicket && l.side == Client:
		if l.rest > maxTicket {
			return ErrTicketSize
		}
		return nil
	}
	return ErrHandshake
}

// takeUpdate takes the request of a KeyUpdate: what the peer sends from now on has its next
// keys (RFC 8446 section 4.6.3).
func (l *Layer) takeUpdate(request byte) error {
	switch request {
	case updateNotRequested:
	case updateRequested:
		l.isUpdateDue.Store(true)
	default:
		return ErrUpdate
	}
	l.in.update()
	return nil
}
