package tls13

import (
	"encoding/binary"
	"slices"
)

// Types of content (RFC 8446 section 5.1). The first byte of a record has one.
const (
	TypeAlert       = 21
	TypeHandshake   = 22
	TypeApplication = 23
)

const (
	// HeaderSize is the size of a record's header, in bytes. Its last two are the size of what
	// follows.
	HeaderSize = 5
	// MaxData is how much data a record may have, in bytes.
	MaxData = 1 << 14
	// Overhead is what a record has beside its data, in bytes.
	Overhead = HeaderSize + 1 + tagSize
	// messageHead is the size of the head of a handshake message, in bytes.
	messageHead = 4

	typeTicket    = 4 // NewSessionTicket
	typeKeyUpdate = 24

	legacyVersion = 0x0303
	// updateAfter is after how many records a direction gets new keys: RFC 8446 section 5.5
	// allows 2^24.5 with AES-GCM.
	updateAfter = 1 << 24
)

const (
	updateNotRequested = 0
	updateRequested    = 1
)

// Append appends records with data to dst, each with at most size bytes of data; 0 means
// MaxData. A KeyUpdate goes before it if the peer has asked for one, or if the keys were used
// for as many records as they may be. Without data it appends nothing. After AppendClose or
// AppendAlert it returns an error.
func (l *Layer) Append(dst, data []byte, size int) ([]byte, error) {
	if l.sending != phaseOpen {
		return dst, ErrClosed
	}
	if size <= 0 || size > MaxData {
		size = MaxData
	}
	for len(data) > 0 {
		if l.isUpdateDue.Load() || l.out.sequence >= updateAfter {
			var err error
			if dst, err = l.appendUpdate(dst); err != nil {
				return dst, err
			}
		}
		n := min(len(data), size)
		var err error
		if dst, err = l.seal(dst, TypeApplication, data[:n]); err != nil {
			return dst, err
		}
		data = data[n:]
	}
	return dst, nil
}

// appendUpdate appends a KeyUpdate, and goes over to the next keys. It asks the peer for
// none: each side counts its own records.
func (l *Layer) appendUpdate(dst []byte) ([]byte, error) {
	l.isUpdateDue.Store(false)
	dst, err := l.seal(dst, TypeHandshake, []byte{typeKeyUpdate, 0, 0, 1, updateNotRequested})
	if err != nil {
		return dst, err
	}
	l.out.update()
	return dst, nil
}

// AppendClose appends close_notify to dst, and ends sending. It does so once.
func (l *Layer) AppendClose(dst []byte) []byte { return l.appendAlert(dst, CloseNotify, phaseClosed) }

// AppendAlert appends an alert that ends the connection.
func (l *Layer) AppendAlert(dst []byte, a Alert) []byte { return l.appendAlert(dst, a, phaseFailed) }

func (l *Layer) appendAlert(dst []byte, a Alert, after phase) []byte {
	if l.sending != phaseOpen {
		return dst
	}
	const warning, fatal = 1, 2
	level := byte(fatal)
	if a == CloseNotify {
		level = warning
	}
	dst, _ = l.seal(dst, TypeAlert, []byte{level, byte(a)}) // without a number, the peer gets none
	l.sending = after
	return dst
}

// seal appends a record.
func (l *Layer) seal(dst []byte, kind byte, content []byte) ([]byte, error) {
	nonce, err := l.out.next()
	if err != nil {
		return dst, err
	}
	begin := len(dst)
	dst = slices.Grow(dst, len(content)+Overhead) // growing later would leave a copy of content
	dst = append(dst, TypeApplication)
	dst = binary.BigEndian.AppendUint16(dst, legacyVersion)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(content)+1+tagSize))
	dst = append(append(dst, content...), kind)
	header, inner := dst[begin:begin+HeaderSize], dst[begin+HeaderSize:]
	return l.out.aead.Seal(dst[:begin+HeaderSize], nonce, inner, header), nil
}
