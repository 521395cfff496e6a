package tls13

import (
	"errors"
	"strconv"
)

// An Alert is the description of an alert (RFC 8446 section 6).
type Alert uint8

// The alerts that this package sends, or knows by name.
const (
	CloseNotify       Alert = 0
	UnexpectedMessage Alert = 10
	BadRecordMAC      Alert = 20
	RecordOverflow    Alert = 22
	IllegalParameter  Alert = 47
	DecodeError       Alert = 50
	InternalError     Alert = 80
	UserCanceled      Alert = 90
)

// String returns the name of RFC 8446 section 6.2, or the number.
func (a Alert) String() string {
	switch a {
	case CloseNotify:
		return "close_notify"
	case UnexpectedMessage:
		return "unexpected_message"
	case BadRecordMAC:
		return "bad_record_mac"
	case RecordOverflow:
		return "record_overflow"
	case IllegalParameter:
		return "illegal_parameter"
	case DecodeError:
		return "decode_error"
	case InternalError:
		return "internal_error"
	case UserCanceled:
		return "user_canceled"
	}
	return strconv.Itoa(int(a))
}

// A PeerAlert is the error of a connection that the peer has ended with an alert other than
// close_notify.
type PeerAlert Alert

// Error implements error.
func (a PeerAlert) Error() string {
	return "sluice: the peer ended TLS with alert " + Alert(a).String()
}

// A Violation is what a peer has done against RFC 8446. The connection ends; Alert is what
// the peer is told.
type Violation struct {
	Alert Alert
	text  string
}

// Error implements error.
func (v *Violation) Error() string { return "sluice: TLS: " + v.text }

// The violations that Next reports.
var (
	ErrType        = &Violation{UnexpectedMessage, "the record is not protected"}
	ErrLength      = &Violation{RecordOverflow, "the record is too long"}
	ErrMAC         = &Violation{BadRecordMAC, "the record cannot be decrypted"}
	ErrContent     = &Violation{UnexpectedMessage, "the record has no content, or content of an unknown type"}
	ErrAlert       = &Violation{DecodeError, "the alert is malformed"}
	ErrHandshake   = &Violation{UnexpectedMessage, "a handshake message came after the handshake that may not"}
	ErrUpdate      = &Violation{IllegalParameter, "the KeyUpdate has an unknown request"}
	ErrUpdateSize  = &Violation{DecodeError, "the KeyUpdate has a wrong size"}
	ErrTicketSize  = &Violation{DecodeError, "the NewSessionTicket is too large"}
	ErrInterrupted = &Violation{UnexpectedMessage, "a handshake message is interrupted, or data follows a KeyUpdate in its record"}
	ErrFruitless   = &Violation{UnexpectedMessage, "too many records in a row brought no data"}
)

var (
	// ErrEnd is returned by Next after close_notify: the peer sends no more.
	ErrEnd = errors.New("sluice: the peer has closed TLS")
	// ErrState is returned for a State that no Layer can be made of.
	ErrState = errors.New("sluice: TLS: the state is malformed")
	// ErrClosed is returned by Append after AppendClose or AppendAlert.
	ErrClosed = errors.New("sluice: TLS: the sending side is closed")
	// ErrSequence is returned when a direction has protected as many records as there are
	// sequence numbers.
	ErrSequence = errors.New("sluice: TLS: no sequence number is left")
)
