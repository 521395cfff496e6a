package proxy

import (
	"encoding/binary"
	"hash/crc32"
	"iter"
)

// The types of TLVs (section 2.2).
const (
	TypeALPN      = 0x01
	TypeAuthority = 0x02 // the server name that the client asked for
	TypeChecksum  = 0x03 // CRC-32C of the header, in which it counts as zero
	TypePadding   = 0x04
	TypeUniqueID  = 0x05 // at most 128 bytes
	TypeTLS       = 0x20
	TypeNamespace = 0x30

	// Those inside of TypeTLS (section 2.2.6).
	TypeTLSVersion   = 0x21
	TypeTLSName      = 0x22 // common name of the client's certificate
	TypeTLSCipher    = 0x23
	TypeTLSSignature = 0x24
	TypeTLSKey       = 0x25
)

const (
	tlvHead      = 3
	checksumSize = 4
	mostUniqueID = 128
	tlsHead      = 5 // of the value of TypeTLS, before the TLVs inside
)

// TLVs are pairs of a type and a value, one after the other. Those of a Header that Parse has
// returned are well formed.
type TLVs []byte

// All returns the types and values in their order. It ends at one that is cut short.
func (t TLVs) All() iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for rest := t; len(rest) >= tlvHead; {
			end := tlvHead + int(binary.BigEndian.Uint16(rest[1:]))
			if end > len(rest) || !yield(rest[0], rest[tlvHead:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

// Get returns the value of the first TLV of a type, nil if there is none.
func (t TLVs) Get(kind byte) []byte {
	for is, value := range t.All() {
		if is == kind {
			return value
		}
	}
	return nil
}

// Append appends a TLV.
func (t TLVs) Append(kind byte, value []byte) TLVs {
	return append(binary.BigEndian.AppendUint16(append(t, kind), uint16(len(value))), value...)
}

// check checks the TLVs with which header ends.
func (t TLVs) check(header []byte) error {
	end := 0 // of those that are whole
	for kind, value := range t.All() {
		end += tlvHead + len(value)
		switch {
		case kind == TypeUniqueID && len(value) > mostUniqueID, kind == TypeTLS && !isTLS(value):
			return errTLV
		case kind != TypeChecksum:
		case len(value) != checksumSize:
			return errTLV
		default:
			at := len(header) - len(t) + end - checksumSize
			if binary.BigEndian.Uint32(value) != checksum(header, at) {
				return ErrChecksum
			}
		}
	}
	if end != len(t) {
		return errTLV
	}
	return nil
}

// checksum returns that of header, in which it stands at at.
func checksum(header []byte, at int) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // it is made once
	sum := crc32.Update(0, table, header[:at])
	sum = crc32.Update(sum, table, make([]byte, checksumSize))
	return crc32.Update(sum, table, header[at+checksumSize:])
}

// sign sets the checksum in the TLVs of header, which begin at at, if there is one.
func sign(header []byte, at int) {
	for kind, value := range TLVs(header[at:]).All() {
		at += tlvHead + len(value)
		if kind == TypeChecksum && len(value) == checksumSize {
			binary.BigEndian.PutUint32(value, checksum(header, at-checksumSize))
		}
	}
}

// A TLS is the value of TypeTLS: what the proxy knows of the client's TLS connection.
type TLS struct {
	// IsUsed is set if the client's connection to the proxy is TLS.
	IsUsed bool
	// HasCertificate is set if the client has shown a certificate on this connection, or on the
	// one whose session it has resumed.
	HasCertificate bool
	// IsVerified is set if the proxy has verified it.
	IsVerified bool
	// TLVs has the rest.
	TLVs TLVs
}

func isTLS(value []byte) bool {
	_, ok := ParseTLS(value)
	return ok
}

// ParseTLS parses the value of a TLV of TypeTLS.
func ParseTLS(value []byte) (t TLS, ok bool) {
	const used, onConnection, inSession = 1, 2, 4
	if len(value) < tlsHead {
		return t, false
	}
	client := value[0]
	t.IsUsed = client&used != 0
	t.HasCertificate = client&(onConnection|inSession) != 0
	t.IsVerified = t.HasCertificate && binary.BigEndian.Uint32(value[1:]) == 0
	t.TLVs = TLVs(value[tlsHead:])
	end := 0
	for _, inner := range t.TLVs.All() {
		end += tlvHead + len(inner)
	}
	return t, end == len(t.TLVs)
}
