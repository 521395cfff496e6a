package main

import (
	"iter"
	"net"
	"strings"

	"github.com/sluicehttp/sluice"
)

// header has the methods that both kinds of heads have.
type header interface {
	All() iter.Seq2[[]byte, []byte]
	Del(name string)
	ResetConnectionClose()
}

// hopByHop are the fields that concern one connection and not the message (RFC 9110
// section 7.6.1). Fields that Connection lists do too.
var hopByHop = [...]string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"TE", "Transfer-Encoding", "Upgrade",
}

// dropHopByHop removes the fields that must not be forwarded.
func dropHopByHop(h header) {
	var listed []string
	for name, value := range h.All() { // there may be several fields
		if string(name) == "Connection" {
			listed = append(listed, strings.Split(string(value), ",")...)
		}
	}
	for _, name := range listed {
		// Host and Content-Length stay: a Connection field that lists them is an attack.
		switch name = strings.TrimSpace(name); strings.ToLower(name) {
		case "", "close", "host", "content-length":
		default:
			h.Del(name)
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
	h.ResetConnectionClose()
}

// forward makes req the request to upstream for ctx's request, without the body.
func (p *proxy) forward(ctx *sluice.RequestCtx, req *sluice.Request) {
	ctx.Request.Header.CopyTo(&req.Header)
	h := &req.Header
	dropHopByHop(h)
	h.Del("Expect") // the server sends 100 when the body is read
	h.SetProtocol("HTTP/1.1")

	// Upstream sees the host that the client has requested. To pass upstream's own
	// name instead, call req.SetHost(p.host).
	req.URI().SetScheme(p.scheme)
	req.UseHostHeader = true

	client, _, err := net.SplitHostPort(ctx.RemoteAddr().String())
	if err != nil {
		client = "unknown" // a UNIX socket
	}
	proto := "http"
	if ctx.IsTLS() {
		proto = "https"
	}
	host := string(ctx.Host())
	if p.trustsForwarded {
		appendField(h, "X-Forwarded-For", client)
		appendField(h, "Forwarded", forwarded(client, host, proto))
		setMissing(h, "X-Forwarded-Proto", proto)
		setMissing(h, "X-Forwarded-Host", host)
		return
	}
	// Clients can send any values for these.
	h.Set("X-Forwarded-For", client)
	h.Set("Forwarded", forwarded(client, host, proto))
	h.Set("X-Forwarded-Proto", proto)
	h.Set("X-Forwarded-Host", host)
}

// forwarded returns an element of a Forwarded field (RFC 7239).
func forwarded(client, host, proto string) string {
	if strings.Contains(client, ":") {
		client = `"[` + client + `]"`
	}
	return "for=" + client + `;host="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host) + `";proto=` + proto
}

// appendField adds an element to a list.
func appendField(h *sluice.RequestHeader, name, value string) {
	var list []string
	for _, before := range h.PeekAll(name) {
		list = append(list, string(before))
	}
	h.Set(name, strings.Join(append(list, value), ", "))
}

func setMissing(h *sluice.RequestHeader, name, value string) {
	if len(h.Peek(name)) == 0 {
		h.Set(name, value)
	}
}
