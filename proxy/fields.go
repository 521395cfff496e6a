package proxy

import (
	"bufio"
	"bytes"
	"iter"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// header has the methods that the heads of requests and responses have.
type header interface {
	VisitAll(f func(name, value []byte))
	DelBytes(name []byte)
	ResetConnectionClose()
}

// A fieldKind says what happens to a field.
type fieldKind uint8

const (
	endToEnd   fieldKind = iota // it is forwarded
	connection                  // Connection: it goes, and so do those that it names
	hopByHop                    // it goes
	forwarded                   // it goes, unless it is appended to
)

// kindOf returns what happens to the field with a name. Names are compared in any spelling,
// and those of forwarded fields also with underscores, which many applications do not tell
// from hyphens.
func kindOf(name []byte) fieldKind {
	switch len(name) {
	case 2, 6, 7, 14, 16, 17, 18, 19, 25:
		for _, hop := range hopNames {
			if len(hop) == len(name) && ascii.EqualFold(name, hop) {
				return hopByHop
			}
		}
	case 9, 10:
		switch {
		case ascii.EqualFold(name, "Connection"):
			return connection
		case ascii.EqualFold(name, "Keep-Alive"):
			return hopByHop
		case ascii.EqualFold(name, "Forwarded"), isSpelling(name, "x-real-ip"):
			return forwarded
		}
	}
	if len(name) > len(forwardedPrefix) && isSpelling(name[:len(forwardedPrefix)], forwardedPrefix) {
		return forwarded
	}
	return endToEnd
}

const forwardedPrefix = "x-forwarded-"

// hopNames are fields that concern one connection (RFC 9110 section 7.6.1), and Trailer and
// Expect, which the proxy settles itself.
var hopNames = [...]string{
	"TE", "Expect", "Trailer", "Upgrade", "HTTP2-Settings", "Proxy-Connection",
	"Transfer-Encoding", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
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
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// dropHop removes the fields of h that must not be forwarded, and those of ForwardedX if
// dropsForwarded. It uses x's memory.
func (x *exchange) dropHop(h header, dropsForwarded bool) {
	x.dropped, x.dropsForwarded, x.hasTE = x.scratch[:0], dropsForwarded, false
	h.VisitAll(x.visit)
	for rest := x.dropped; len(rest) > 0; {
		var name []byte
		name, rest, _ = bytes.Cut(rest, []byte("\n"))
		h.DelBytes(name)
	}
	x.keep(x.dropped)
	x.dropped = nil
	h.ResetConnectionClose()
}

// visitField notes which fields must be dropped.
func (x *exchange) visitField(name, value []byte) {
	switch kindOf(name) {
	case endToEnd:
		return
	case hopByHop:
		x.hasTE = x.hasTE || len(name) == len("TE")
	case forwarded:
		if !x.dropsForwarded {
			return
		}
	case connection:
		x.dropped = appendNamed(x.dropped, value)
	}
	x.dropped = append(append(x.dropped, name...), '\n')
}

// appendNamed appends the names that a Connection field lists.
func appendNamed(dst, list []byte) []byte {
	for more := true; more; {
		var name []byte
		name, list, more = ascii.Cut(list, ',')
		name = ascii.TrimOWS(name)
		// Host and what frames the message stay: a Connection field that lists them is an attack.
		if len(name) == 0 || ascii.EqualFold(name, "Host") || ascii.EqualFold(name, "Content-Length") || bytes.IndexByte(name, '\n') >= 0 {
			continue
		}
		dst = append(append(dst, name...), '\n')
	}
	return dst
}

// keep makes the memory of used x's scratch memory, unless it is uncommonly large.
func (x *exchange) keep(used []byte) {
	if cap(used) <= 4<<10 {
		x.scratch = used[:0]
	}
}

// buildHead makes x.req the request that is sent, without a body.
func (x *exchange) buildHead() {
	in, h, o := &x.ctx.Request.Header, &x.req.Header, &x.proxy.options
	in.CopyTo(h)
	x.dropHop(h, o.Forwarded != ForwardedAppend)
	for name := range in.Trailers() { // those that have arrived already, with a body in memory
		if kindOf(name) != endToEnd {
			h.DelBytes(name)
		}
	}
	// Names that a client announces as trailer fields must not move the fields that are set
	// below, or by Options.Request, out of the head. This removes what Del does not.
	_ = h.SetTrailer("")
	h.SetProtocol("HTTP/1.1")
	h.SetNoDefaultContentType(true)
	x.req.UseHostHeader = true
	host := x.ctx.Host()              // of an absolute target, or of Host
	if !bytes.Equal(host, h.Host()) { // what was received is not parsed again
		h.SetHostBytes(host)
	}
	if target := in.RequestURI(); len(target) > 0 && target[0] != '/' && string(target) != "*" {
		x.req.SetRequestURIBytes(x.ctx.URI().RequestURI())
	}
	if x.hasTE && hasMember(in, "TE", "trailers") {
		h.Set("Te", "trailers") // gRPC needs it, and trailer fields are forwarded
	}
	if o.Via != "" {
		x.appendField("Via", x.via(string(in.Protocol())))
	}
	if o.Forwarded != ForwardedDrop {
		x.setForwarded(host)
	}
}

// setForwarded tells who the client is.
func (x *exchange) setForwarded(host []byte) {
	h, isAppended := &x.req.Header, x.proxy.options.Forwarded == ForwardedAppend
	proto := "http"
	if x.ctx.IsTLS() {
		proto = "https"
	}
	client := appendClient(x.scratch[:0], upgrade.RemoteAddrPort(x.ctx))
	n := len(client)
	element := append(client, "for="...)
	if bytes.IndexByte(client, ':') >= 0 {
		element = append(append(append(element, `"[`...), client...), `]"`...)
	} else {
		element = append(element, client...)
	}
	element = append(element, `;host="`...)
	for _, c := range host {
		if c == '"' || c == '\\' {
			element = append(element, '\\')
		}
		element = append(element, c)
	}
	element = append(append(element, `";proto=`...), proto...)
	x.keep(element)
	client, element = element[:n], element[n:]
	if isAppended {
		x.appendField("X-Forwarded-For", string(client))
		x.appendField("Forwarded", string(element))
		x.setMissing("X-Forwarded-Host", string(host))
		x.setMissing("X-Forwarded-Proto", proto)
		return
	}
	h.SetBytesV("X-Forwarded-For", client)
	h.SetBytesV("X-Forwarded-Host", host)
	h.Set("X-Forwarded-Proto", proto)
	h.SetBytesV("Forwarded", element)
}

// appendField adds a member to a list of the request.
func (x *exchange) appendField(name, member string) {
	h := &x.req.Header
	var list []string
	for _, before := range h.PeekAll(name) {
		list = append(list, string(before))
	}
	h.Del(name)
	h.Set(name, strings.Join(append(list, member), ", "))
}

func (x *exchange) setMissing(name, value string) {
	if h := &x.req.Header; len(h.Peek(name)) == 0 {
		h.Set(name, value)
	}
}

// announceTrailers announces to the receiver of to what the sender of from has announced. A field
// of the head of to stays there.
func announceTrailers(from, to trailers) {
	if len(from.PeekBytes(nameTrailer)) == 0 { // the usual case, in which Trailers would allocate
		return
	}
	for name := range from.Trailers() {
		if kindOf(name) == endToEnd && len(to.PeekBytes(name)) == 0 {
			_ = to.AddTrailerBytes(name) // the parser has dropped what must not be one
		}
	}
}

var nameTrailer = []byte(sluice.HeaderTrailer)

// forwardTrailers gives the trailer fields of from to to. They never become fields of the
// head, and only end-to-end fields are forwarded.
func forwardTrailers(from trailers, to trailers) {
	section := from.TrailerHeader()
	if len(section) <= len("\r\n") {
		return
	}
	kept := make([]byte, 0, len(section))
	for line := range bytes.Lines(section) {
		if name, _, _ := bytes.Cut(line, []byte(":")); kindOf(bytes.TrimRight(name, "\r\n")) == endToEnd {
			kept = append(kept, line...)
		}
	}
	_ = to.ReadTrailer(bufio.NewReaderSize(bytes.NewReader(kept), len(kept))) // it is well-formed
}

// trailers has the methods of trailer sections of requests and responses.
type trailers interface {
	Trailers() iter.Seq[[]byte]
	PeekBytes(name []byte) []byte
	AddTrailerBytes(name []byte) error
	TrailerHeader() []byte
	ReadTrailer(r *bufio.Reader) error
}

// via returns the proxy's member of Via, for a message that was received with a protocol.
func (x *exchange) via(protocol string) string {
	version := strings.TrimPrefix(protocol, "HTTP/")
	return version + " " + x.proxy.options.Via
}

// isLoop reports whether the request was here before.
func (x *exchange) isLoop() bool {
	name := x.proxy.options.Via
	if name == "" {
		return false
	}
	for _, list := range x.ctx.Request.Header.PeekAll("Via") {
		for member := range strings.SplitSeq(string(list), ",") {
			if words := strings.Fields(member); len(words) > 1 && strings.EqualFold(words[1], name) {
				return true
			}
		}
	}
	return false
}

// hasMember reports whether a field of h has a member.
func hasMember(h *sluice.RequestHeader, name, member string) bool {
	for _, list := range h.PeekAll(name) {
		if ascii.HasMember(list, member) {
			return true
		}
	}
	return false
}
