package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"iter"
	"net/netip"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// buildHead makes x.req the request that is sent for a client, without a body.
func (x *exchange) buildHead(client netip.AddrPort) {
	in, h, o := &x.ctx.Request.Header, &x.req.Header, &x.proxy.options
	received, out := x.received, x.sent
	hadTE := received.ForwardTo(out, o.Forwarded == ForwardedAppend)
	x.req.UseHostHeader = true
	host := uri.WithoutZone(x.ctx.Host())    // of an absolute target, or of Host
	if !bytes.Equal(host, received.Host()) { // mostly they are the same bytes
		h.SetHostBytes(host)
	}
	if target := received.Target(); len(target) > 0 && target[0] != '/' && string(target) != "*" {
		if received.IsTargetReceived() {
			target = originOf(target, in.IsOptions())
		} else { // of any form
			target = x.ctx.URI().RequestURI()
		}
		x.req.SetRequestURIBytes(target)
	}
	if hadTE && x.hasMember("TE", "trailers") {
		h.Set(sluice.HeaderTE, "trailers") // gRPC needs it, and trailer fields are forwarded
		h.Set(sluice.HeaderConnection, sluice.HeaderTE)
	}
	if left, ok := x.forwardsLeft(); ok && left > 0 {
		h.Set(sluice.HeaderMaxForwards, strconv.FormatUint(left-1, 10))
	}
	if o.Via != "" {
		x.appendField("Via", x.via(string(in.Protocol())))
	}
	if o.Forwarded == ForwardedDrop {
		return
	}
	proto := "http"
	if x.ctx.IsTLS() {
		proto = "https"
	}
	if o.Forwarded == ForwardedAppend {
		x.appendForwarded(client.Addr(), host, proto)
	} else {
		x.forwarded.AddTo(out, client.Addr(), host, proto)
	}
}

// forwardsLeft returns Max-Forwards of a request with one of the methods to which it applies (RFC 9110
// section 7.6.2), if it has one that is well-formed.
func (x *exchange) forwardsLeft() (left uint64, ok bool) {
	h := &x.ctx.Request.Header
	if !h.IsOptions() && !h.IsTrace() {
		return 0, false
	}
	left, err := strconv.ParseUint(string(h.Peek(sluice.HeaderMaxForwards)), 10, 64)
	return left, err == nil || errors.Is(err, strconv.ErrRange) // then left is the largest number
}

// originOf returns what of a target in absolute form, which a parser has checked, is sent to its
// origin (RFC 9112 section 3.2.4).
func originOf(target []byte, isOptions bool) []byte {
	_, rest, _ := bytes.Cut(target, []byte("://"))
	switch i := bytes.IndexAny(rest, "/?"); {
	case i >= 0:
		return rest[i:] // "/" comes before "?"
	case isOptions:
		return []byte("*")
	}
	return []byte("/")
}

// appendForwarded tells who the client is beside what was received.
func (x *exchange) appendForwarded(addr netip.Addr, host []byte, proto string) {
	client := message.AppendClient(nil, addr)
	x.scratch = message.AppendForwarded(x.scratch[:0], client, host, proto)
	x.appendField("X-Forwarded-For", string(client))
	x.appendField("Forwarded", string(x.scratch))
	if len(host) > 0 {
		x.setMissing("X-Forwarded-Host", string(host))
	}
	x.setMissing("X-Forwarded-Proto", proto)
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
		if message.ForwardKindOf(name) == message.EndToEnd && len(to.PeekBytes(name)) == 0 {
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
		if name, _, _ := bytes.Cut(line, []byte(":")); message.ForwardKindOf(bytes.TrimRight(name, "\r\n")) == message.EndToEnd {
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
	for _, list := range upgrade.PeekAll(x.ctx, &x.ctx.Request.Header, "Via") {
		for member := range strings.SplitSeq(string(list), ",") {
			if words := strings.Fields(member); len(words) > 1 && strings.EqualFold(words[1], name) {
				return true
			}
		}
	}
	return false
}

// hasMember reports whether a field of the client's request has a member.
func (x *exchange) hasMember(name, member string) bool {
	for _, list := range upgrade.PeekAll(x.ctx, &x.ctx.Request.Header, name) {
		if ascii.HasMember(list, member) {
			return true
		}
	}
	return false
}
