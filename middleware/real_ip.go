package middleware

import (
	"bytes"
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// RealIPOptions say whose word counts.
type RealIPOptions struct {
	// Trusted are the networks of your proxies, beside those that connect over a unix socket.
	// List only your proxies: whoever is in it chooses its address.
	Trusted []netip.Prefix
	// Header is the field in which your proxies tell the client's address: X-Forwarded-For if
	// empty, "Forwarded" (RFC 7239), or another list of addresses, such as X-Real-Ip. Your
	// proxies must set it, or append to it. No other field is read: the client may have sent it.
	Header string
}

// RealIP returns a middleware that makes ctx.RemoteAddr and RemoteIP report the client's
// address behind proxies that speak HTTP. (Server.ProxyProtocol does so for those that forward
// connections.) Put it outside everything that asks for addresses.
//
// The field is read from the right, where the nearest proxy has written: the client is the
// first that is not trusted. What is left of it, the client may have invented. An element that
// is malformed or hides the address ("unknown", "_hidden") ends the search: the client is then
// the proxy that has sent it. Requests of peers that are not trusted keep their address.
func RealIP(o RealIPOptions) func(sluice.RequestHandler) sluice.RequestHandler {
	r := &realIP{node: parseNode}
	for _, p := range o.Trusted {
		if !p.IsValid() {
			panic("sluice: RealIPOptions: one of Trusted is no network")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		r.trusted = append(r.trusted, p)
	}
	if r.header = cmp.Or(o.Header, sluice.HeaderXForwardedFor); strings.EqualFold(r.header, sluice.HeaderForwarded) {
		r.node = parseForwarded
	}
	if !h1.IsToken([]byte(r.header)) {
		panic("sluice: RealIPOptions: " + strconv.Quote(r.header) + " is no name of a field")
	}
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			if r.trustsPeer(ctx.RemoteAddr()) {
				if at := r.find(upgrade.PeekAll(ctx, &ctx.Request.Header, r.header)); at.IsValid() {
					ctx.SetRemoteAddr(net.TCPAddrFromAddrPort(at))
				}
			}
			h(ctx)
		}
	}
}

type realIP struct {
	trusted []netip.Prefix
	header  string
	node    func(element string) (netip.AddrPort, bool)
}

func (r *realIP) trustsPeer(peer net.Addr) bool {
	if at, ok := peer.(interface{ AddrPort() netip.AddrPort }); ok { // of TCP and UDP
		return r.trusts(at.AddrPort().Addr().Unmap().WithZone("")) // no Prefix contains an address with a zone
	}
	_, isUnix := peer.(*net.UnixAddr)
	return isUnix
}

func (r *realIP) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(r.trusted, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// find returns the client's address, which is not valid if the first proxy has told none.
func (r *realIP) find(lines [][]byte) (client netip.AddrPort) {
	for _, rest := range slices.Backward(lines) {
		for isMore := true; isMore; {
			var element []byte
			comma := bytes.LastIndexByte(rest, ',')
			element, rest, isMore = rest[comma+1:], rest[:max(comma, 0)], comma >= 0
			if element = bytes.Trim(element, " \t"); len(element) == 0 {
				continue
			}
			at, ok := r.node(string(element))
			if !ok {
				return client
			}
			if client = at; !r.trusts(at.Addr()) {
				return client
			}
		}
	}
	return client
}

// parseNode parses an address with or without a port, as 192.0.2.1:80, 2001:db8::1 and
// [2001:db8::1]:80.
func parseNode(text string) (netip.AddrPort, bool) {
	host, port := text, ""
	if inside, isBracketed := strings.CutPrefix(text, "["); isBracketed {
		var isClosed bool
		if host, port, isClosed = strings.Cut(inside, "]"); !isClosed || port != "" && port[0] != ':' {
			return netip.AddrPort{}, false
		}
		port = strings.TrimPrefix(port, ":")
	} else if strings.Count(text, ":") == 1 {
		host, port, _ = strings.Cut(text, ":")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, false
	}
	number, _ := strconv.ParseUint(port, 10, 16) // 0 for a port that is hidden, as _x
	return netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(number)), true
}

// parseForwarded parses an element of Forwarded, and returns the node of its parameter for. A
// comma in a quoted string has cut the element: it is malformed then, and nobody's word.
func parseForwarded(element string) (at netip.AddrPort, ok bool) {
	node := ""
	for rest := element; rest != ""; {
		var name, value string
		name, rest, _ = strings.Cut(rest, "=")
		value, rest = cutValue(rest)
		isFor := strings.EqualFold(name, "for")
		if value == "" || rest != "" && rest[0] != ';' || isFor && node != "" {
			return at, false
		}
		if rest = strings.TrimLeft(rest, "; \t"); isFor {
			node = value
		}
	}
	return parseNode(node)
}

// cutValue returns the token or the content of the quoted-string at the beginning of text, and
// what follows it. value is empty for anything else, and for quoted strings with escapes, which
// no address has.
func cutValue(text string) (value, rest string) {
	if quoted, isQuoted := strings.CutPrefix(text, `"`); isQuoted {
		if end := strings.IndexAny(quoted, `"\`); end >= 0 && quoted[end] == '"' {
			return quoted[:end], quoted[end+1:]
		}
		return "", text
	}
	end := strings.IndexAny(text+";", "; \t\"")
	return text[:end], text[end:]
}
