package message

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// A ForwardKind says what a proxy does with a field.
type ForwardKind uint8

const (
	// EndToEnd: the field is forwarded.
	EndToEnd ForwardKind = iota
	// HopByHop: the field concerns one connection (RFC 9110 section 7.6.1), and is dropped. So
	// are Trailer and Expect, which a proxy settles itself.
	HopByHop
	// Forwarded: the field says who the client is, as proxies do.
	Forwarded
)

const (
	hopFields idSet = 1<<field.Connection | 1<<field.KeepAlive | 1<<field.TransferEncoding |
		1<<field.Trailer | 1<<field.Expect | 1<<field.Upgrade

	forwardedFields idSet = 1<<field.Forwarded | 1<<field.XForwardedFor | 1<<field.XForwardedHost | 1<<field.XForwardedProto
)

const forwardedPrefix = "x-forwarded-"

var hopNames = [...]string{
	"TE", "Expect", "Trailer", "Upgrade", "Connection", "Keep-Alive", "HTTP2-Settings", "Proxy-Connection",
	"Transfer-Encoding", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
}

// ForwardKindOf returns what happens to the field with a name. Names are compared in any
// spelling, and those of forwarded fields also with underscores, which many applications do not
// tell from hyphens.
func ForwardKindOf(name []byte) ForwardKind {
	switch len(name) {
	case 2, 6, 7, 10, 14, 16, 17, 18, 19, 25:
		for _, hop := range hopNames {
			if len(hop) == len(name) && ascii.EqualFold(name, hop) {
				return HopByHop
			}
		}
	case 9:
		if ascii.EqualFold(name, "Forwarded") || isSpelling(name, "x-real-ip") {
			return Forwarded
		}
	}
	if len(name) > len(forwardedPrefix) && isSpelling(name[:len(forwardedPrefix)], forwardedPrefix) {
		return Forwarded
	}
	return EndToEnd
}

// isSpelling reports whether name is lower, which is in lower case, in any case and with
// hyphens or underscores.
func isSpelling(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c == '_' {
			c = '-'
		}
		if ascii.Lower(c) != lower[i] {
			return false
		}
	}
	return true
}

// ForwardTo makes dst, which is not h, the head of the request that a proxy sends: a copy of h
// for HTTP/1.1 without the fields that concern one connection, without those of the kind Forwarded
// unless keepsForwarded is true, and without an announcement of trailer fields. hadTE reports
// whether h has TE.
func (h *RequestHeader) ForwardTo(dst *RequestHeader, keepsForwarded bool) (hadTE bool) {
	h.CopyTo(dst)
	hadTE = dst.dropHop(keepsForwarded)
	if h.trailer != nil {
		for name := range h.VisitTrailers { // those that have arrived already, with a body in memory
			if ForwardKindOf(name) != EndToEnd {
				dst.Del(name)
			}
		}
		// Names that a client announces as trailer fields must not move fields that are set later
		// out of the head.
		_ = dst.ReplaceAnnouncement(nil) // cannot fail
	}
	return hadTE
}

// ForwardTo makes dst, which is not h, the head of the response that a proxy sends: a copy of h
// for HTTP/1.1 without the fields that concern one connection, and without an announcement of
// trailer fields.
func (h *ResponseHeader) ForwardTo(dst *ResponseHeader) {
	h.CopyTo(dst)
	dst.dropHop(true)
	if dst.trailer != nil {
		_ = dst.ReplaceAnnouncement(nil) // cannot fail
	}
}

// dropHop removes the fields that concern one connection, and those that Connection lists. It
// reports whether TE was among them.
func (h *Header) dropHop(keepsForwarded bool) (hadTE bool) {
	drop, options := hopFields, h.text[:0]
	if !keepsForwarded {
		drop |= forwardedFields
	}
	for i := h.Table.Index(field.Connection); i >= 0; i = h.Table.FindID(field.Connection, i+1) {
		listed, hasOthers := listedFields(h.Table.Value(i))
		if drop |= listed; hasOthers || h.trailer != nil {
			options = append(append(options, h.Table.Value(i)...), ',')
		}
	}
	h.Table.Filter(uint64(drop), func(name []byte) bool {
		switch ForwardKindOf(name) {
		case HopByHop:
			hadTE = hadTE || len(name) == len("TE")
			return true
		case Forwarded:
			return !keepsForwarded
		}
		return false
	})
	if len(options) > 0 {
		h.dropOptions(options)
	}
	if drop.has(field.Server) {
		h.ShowsServer = false
	}
	if drop.has(field.Date) {
		h.OwnsDate = false
	}
	h.showsCoding, h.ConnectionClose, h.NoDefaultContentType, h.IsHTTP10 = false, false, true, false
	h.protocol = h.protocol[:0]
	return hadTE
}

// listedFields returns the known fields that a Connection field lists. hasOthers reports whether
// it lists other names.
func listedFields(list []byte) (ids idSet, hasOthers bool) {
	for more := string(list) != string(textKeepAlive); more; {
		var name []byte
		name, list, more = ascii.Cut(list, ',')
		name = ascii.TrimOWS(name)
		if id := field.Lookup(name); id != field.Other {
			ids |= 1 << id
		} else {
			hasOthers = hasOthers || len(name) > 0
		}
	}
	return ids &^ keptFields, hasOthers
}

// keptFields are Host and what frames the message: a Connection field that lists them is an attack.
const keptFields idSet = 1<<field.Host | 1<<field.ContentLength

// dropOptions removes the fields that Connection has listed.
func (h *Header) dropOptions(list []byte) {
	h.text = list
	for more := true; more; {
		var name []byte
		name, list, more = ascii.Cut(list, ',')
		name = ascii.TrimOWS(name)
		if id := field.Lookup(name); len(name) > 0 && !keptFields.has(id) {
			h.DelAny(ascii.String(name))
		}
	}
}

// AppendForwarded appends the element of Forwarded (RFC 7239) that tells who the client is: an IP
// address, or another name without characters that must be quoted.
func AppendForwarded(dst, client, host []byte, proto string) []byte {
	dst, _, _ = appendForwarded(dst, client, host, proto)
	return dst
}

// appendForwarded is AppendForwarded. It returns where client and host are in dst; hostAt is 0 if
// host has characters that are quoted.
func appendForwarded(dst, client, host []byte, proto string) (_ []byte, clientAt, hostAt int) {
	dst = append(dst, "for="...)
	if bytes.IndexByte(client, ':') >= 0 {
		dst = append(dst, `"[`...)
		clientAt = len(dst)
		dst = append(append(dst, client...), `]"`...)
	} else {
		clientAt = len(dst)
		dst = append(dst, client...)
	}
	dst = append(dst, `;host="`...)
	if ascii.All(host, ascii.Quoted) {
		hostAt = len(dst)
		dst = append(dst, host...)
	} else {
		for _, c := range host {
			if c == '"' || c == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, c)
		}
	}
	return append(append(dst, `";proto=`...), proto...), clientAt, hostAt
}

// AddForwarded adds X-Forwarded-For, -Host, -Proto and Forwarded, none of which h has. The
// arguments are those of AppendForwarded.
func (h *RequestHeader) AddForwarded(client, host []byte, proto string) {
	text, clientAt, hostAt := appendForwarded(h.text[:0], client, host, proto)
	h.text = text
	if hostAt == 0 || h.trailer != nil {
		h.SetKnown(field.XForwardedFor, client)
		h.SetKnown(field.XForwardedHost, host)
		h.SetKnown(field.XForwardedProto, ascii.Bytes(proto))
		h.SetKnown(field.Forwarded, text)
		return
	}
	h.Table.AddParts(text, []field.Part{
		{ID: field.XForwardedFor, Start: clientAt, End: clientAt + len(client)},
		{ID: field.XForwardedHost, Start: hostAt, End: hostAt + len(host)},
		{ID: field.XForwardedProto, Start: len(text) - len(proto), End: len(text)},
		{ID: field.Forwarded, End: len(text)},
	})
}
