package sluice

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// A connScheme is the scheme of the connection on which a server has received a request. It
// is that of the URI, whatever the target says: a client must not decide whether its
// connection counts as secure (RFC 9110 section 7.4).
type connScheme uint8

const (
	notReceived connScheme = iota // the program has made or read the request
	overHTTP
	overHTTPS
)

// receivedOver says on which connection a server has received the request.
func (r *Request) receivedOver(isTLS bool) {
	r.connection = overHTTP
	if isTLS {
		r.connection = overHTTPS
	}
}

// URI returns the request's URI, which the request owns. The first call parses
// it from the target and, if the target has no host, from the Host field. In a server the
// scheme is https if the connection has TLS, and otherwise http, also where an absolute
// target has another one; RequestURI returns the target as it came. When
// the request is written, changes of the URI take precedence over both. If the
// target cannot be parsed, the URI is empty, and writing the request fails.
func (r *Request) URI() *URI {
	if !r.hasURI {
		r.parseURI()
	}
	return &r.uri
}

// uriFailure returns the error of the parsing that URI did, nil if there was none.
func (r *Request) uriFailure() error { return r.uriError }

// parseURI parses uri. It keeps the error, which writing the request returns.
func (r *Request) parseURI() {
	r.hasURI = true
	if host, target, ok := r.Header.m.LendOrigin(); ok { // what servers receive: there is nothing to check
		r.uri.DisablePathNormalizing = false
		r.uri.m.SetOrigin(host, target, r.connection == overHTTPS)
		return
	}
	r.parseOtherURI()
}

// parseOtherURI is parseURI for what is not in origin-form, or was set.
func (r *Request) parseOtherURI() {
	host, target := r.Header.Host(), r.Header.m.Target()
	// What was set may be a reference: //host/path names a host if Host does not.
	isReference := len(host) == 0 && bytes.HasPrefix(target, []byte("//")) && !r.Header.m.IsTargetReceived()
	if len(target) > 0 && target[0] == '/' && !isReference || r.Header.IsConnect() {
		// One pass, and nothing lenient.
		r.uri.DisablePathNormalizing = false
		r.uri.queryArgs.m.Reset()
		r.uriError = r.uri.m.ParseTarget(host, target, r.connection == overHTTPS)
		if r.uriError == nil {
			return
		}
	}
	r.uriError = r.uri.Parse(host, target)
	switch isReceived := r.Header.m.IsTargetReceived(); {
	case r.uriError != nil || !isReceived && bytes.Contains(target, []byte("://")):
	case r.connection == overHTTPS:
		r.uri.SetScheme(schemeHTTPS)
	case r.connection == overHTTP && isReceived:
		r.uri.SetScheme(schemeHTTP)
	}
}

// SetURI sets the request's URI to a copy of newURI. With nil, the request
// parses its target again.
func (r *Request) SetURI(newURI *URI) {
	if newURI == nil {
		r.dropURI()
		return
	}
	newURI.CopyTo(&r.uri)
	r.hasURI, r.uriError = true, nil
}

// SetRequestURI sets the target: a whole URI, or path and query together with
// the Host field. It discards the URI that URI returned.
func (r *Request) SetRequestURI(requestURI string) { r.SetRequestURIBytes(ascii.Bytes(requestURI)) }

// SetRequestURIBytes is SetRequestURI for bytes.
func (r *Request) SetRequestURIBytes(requestURI []byte) {
	r.Header.SetRequestURIBytes(requestURI)
	r.dropURI()
}

// dropURI makes URI parse the target again.
func (r *Request) dropURI() {
	if r.hasURI {
		r.uri.Reset()
		r.hasURI, r.uriError = false, nil
	}
}

// RequestURI returns the target as it is written. If URI was used, the target
// is the URI's path and query, and RequestURI also sets it in Header. The
// target of CONNECT has no path and query: it is what was received or set.
func (r *Request) RequestURI() []byte {
	if r.hasURI && !r.Header.IsConnect() {
		r.Header.SetRequestURIBytes(r.uri.RequestURI())
	}
	return r.Header.RequestURI()
}

// Host returns the host of the URI, in lower case.
func (r *Request) Host() []byte { return r.URI().Host() }

// SetHost sets the host of the URI.
func (r *Request) SetHost(host string) { r.URI().SetHost(host) }

// SetHostBytes is SetHost for bytes.
func (r *Request) SetHostBytes(host []byte) { r.URI().SetHostBytes(host) }
