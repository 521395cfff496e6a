package otel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// The attributes of the semantic conventions for HTTP that are stable.
const (
	keyMethod         = attribute.Key("http.request.method")
	keyMethodOriginal = attribute.Key("http.request.method_original")
	keyStatus         = attribute.Key("http.response.status_code")
	keyRoute          = attribute.Key("http.route")
	keyResend         = attribute.Key("http.request.resend_count")
	keyErrorType      = attribute.Key("error.type")
	keyScheme         = attribute.Key("url.scheme")
	keyPath           = attribute.Key("url.path")
	keyQuery          = attribute.Key("url.query")
	keyFull           = attribute.Key("url.full")
	keyServer         = attribute.Key("server.address")
	keyServerPort     = attribute.Key("server.port")
	keyClient         = attribute.Key("client.address")
	keyPeer           = attribute.Key("network.peer.address")
	keyPeerPort       = attribute.Key("network.peer.port")
	keyProtocol       = attribute.Key("network.protocol.version")
	keyUserAgent      = attribute.Key("user_agent.original")
)

// otherMethod is the value of http.request.method for methods that are not known: clients
// could otherwise make any number of values.
const otherMethod = "_OTHER"

// methodOf returns the value of http.request.method.
func methodOf(method []byte) string {
	switch m := string(method); m {
	case sluice.MethodGet, sluice.MethodHead, sluice.MethodPost, sluice.MethodPut, sluice.MethodPatch,
		sluice.MethodDelete, sluice.MethodConnect, sluice.MethodOptions, sluice.MethodTrace:
		return m
	}
	return otherMethod
}

// spanName returns the name of a span: the method, and the route if there is one.
func spanName(method, route string) string {
	if method == otherMethod {
		method = "HTTP"
	}
	if route != "" {
		return method + " " + route
	}
	return method
}

// peerOf returns the address and the port of the other side; false: it has none.
func peerOf(addr net.Addr) (address string, port int, ok bool) {
	remote, ok := addr.(interface{ AddrPort() netip.AddrPort }) // of TCP and UDP
	if !ok || !remote.AddrPort().IsValid() {
		return "", 0, false
	}
	at := remote.AddrPort()
	return at.Addr().Unmap().WithZone("").String(), int(at.Port()), true
}

// protocolVersion returns the value of network.protocol.version: "1.1" of "HTTP/1.1", "2" of
// "HTTP/2.0", "3" of "HTTP/3.0".
func protocolVersion(protocol []byte) string {
	version := strings.TrimPrefix(string(protocol), "HTTP/")
	if version == "1.0" {
		return version
	}
	return strings.TrimSuffix(version, ".0")
}

// appendHost appends the attributes of a host with or without a port.
func appendHost(all []attribute.KeyValue, host string) []attribute.KeyValue {
	if host == "" {
		return all
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return append(all, keyServer.String(strings.Trim(host, "[]")))
	}
	all = append(all, keyServer.String(name))
	if n, err := strconv.Atoi(port); err == nil {
		all = append(all, keyServerPort.Int(n))
	}
	return all
}

// errorType returns the value of error.type for an error: what is known of it without its
// text, which has too many values.
func errorType(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", rootOf(err)), "*")
}

// rootOf returns the innermost error.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// headers are those of a request, as a Propagator sees them.
type headers struct{ *sluice.RequestHeader }

var _ propagation.TextMapCarrier = headers{}

// Get implements propagation.TextMapCarrier.
func (h headers) Get(key string) string {
	values := h.PeekAll(key)
	if len(values) == 0 { // a server that keeps names as they were sent may have another spelling
		values = upgrade.Values(h.All(), key)
	}
	if len(values) == 0 {
		return ""
	}
	text := string(values[0])
	for _, more := range values[1:] { // tracestate and baggage are lists
		text += "," + string(more)
	}
	return text
}

// Set implements propagation.TextMapCarrier.
func (h headers) Set(key, value string) { h.RequestHeader.Set(key, value) }

// Keys implements propagation.TextMapCarrier.
func (h headers) Keys() (all []string) {
	for name := range h.All() {
		all = append(all, string(name))
	}
	return all
}
