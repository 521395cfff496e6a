package message

import (
	"bytes"
	"net/netip"

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
	dst.isForwarded = true
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
// trailer fields. Date stays that of the origin; the server adds one that is missing (RFC 9110
// section 6.6.1).
func (h *ResponseHeader) ForwardTo(dst *ResponseHeader) {
	h.CopyTo(dst)
	dst.dropHop(true)
	dst.OwnsDate = dst.Table.Index(field.Date) >= 0
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

// AppendClient appends the address of a client, or "unknown" for one that is not valid.
func AppendClient(dst []byte, client netip.Addr) []byte {
	if client.IsValid() {
		return client.Unmap().WithZone("").AppendTo(dst)
	}
	return append(dst, "unknown"...)
}

// AppendForwarded appends the element of Forwarded (RFC 7239) that tells who the client is: an IP
// address, or another name without characters that must be quoted.
func AppendForwarded(dst, client, host []byte, proto string) []byte {
	dst = append(dst, "for="...)
	if bytes.IndexByte(client, ':') >= 0 {
		dst = append(append(append(dst, `"[`...), client...), `]"`...)
	} else {
		dst = append(dst, client...)
	}
	switch {
	case len(host) == 0:
	case ascii.All(host, ascii.Quoted):
		dst = append(append(append(dst, `;host="`...), host...), '"')
	default:
		dst = append(dst, `;host="`...)
		for _, c := range host {
			if c == '"' || c == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, c)
		}
		dst = append(dst, '"')
	}
	return append(append(dst, ";proto="...), proto...)
}

// ForwardedFields are X-Forwarded-For, -Host, -Proto and Forwarded for one client and one host. They
// are made again only if the next request has others. Those of a load balancer mostly have the same.
type ForwardedFields struct {
	fields field.Table
	text   []byte // the values

	// What they were made of.
	client netip.Addr
	host   []byte
	proto  string
}

// AddTo adds the fields to h, which has none of them. The arguments are those of AppendClient and
// AppendForwarded.
func (f *ForwardedFields) AddTo(h *RequestHeader, client netip.Addr, host []byte, proto string) {
	if client != f.client || string(host) != string(f.host) || proto != f.proto {
		f.renew(client, host, proto)
	}
	if h.trailer == nil {
		h.Table.AddAll(&f.fields)
		return
	}
	for i := range f.fields.Len() {
		h.SetKnown(f.fields.ID(i), f.fields.Value(i))
	}
}

// HeldBytes is the memory that f keeps for its next use.
func (f *ForwardedFields) HeldBytes() int {
	return f.fields.HeldBytes() + cap(f.text) + cap(f.host)
}

func (f *ForwardedFields) renew(client netip.Addr, host []byte, proto string) {
	f.client, f.host, f.proto = client, append(f.host[:0], host...), proto
	text := AppendClient(f.text[:0], client)
	name := text
	text = ascii.AppendFieldText(text, host)
	host = text[len(name):]
	text = AppendForwarded(text, name, host, proto)
	f.fields.Reset()
	f.fields.AddLine(field.XForwardedFor, name)
	if len(host) > 0 { // a client of HTTP/1.0 may have named none
		f.fields.AddLine(field.XForwardedHost, host)
	}
	f.fields.AddLine(field.XForwardedProto, ascii.Bytes(proto))
	f.fields.AddLine(field.Forwarded, text[len(name)+len(host):])
	f.text = text
}
