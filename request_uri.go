package sluice

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// URI returns the request's URI, parsed on the first call from the target and,
// if that has no host, the Host field. Changes of it have precedence over both
// when the request is written. It belongs to the request. If the target cannot
// be parsed, the URI is empty, and writing the request fails.
func (r *Request) URI() *URI {
	if !r.hasURI {
		r.parseURI()
	}
	return &r.uri
}

// parseURI fills uri. It keeps the error for whoever writes the request.
func (r *Request) parseURI() {
	r.hasURI = true
	host, target := r.Header.Host(), r.Header.requestTarget()
	if len(target) > 0 && target[0] == '/' || r.Header.IsConnect() {
		// What servers receive: one pass, and nothing to be lenient about.
		r.uriError = r.uri.parseRequestTarget(host, target, r.isTLS)
		if r.uriError == nil {
			return
		}
	}
	r.uriError = r.uri.Parse(host, target)
	if r.isTLS && r.uriError == nil && !bytes.Contains(target, schemeEnd) {
		r.uri.SetScheme(schemeHTTPS)
	}
}

// SetURI makes a copy of newURI the request's URI. nil makes the request parse
// its target again.
func (r *Request) SetURI(newURI *URI) {
	r.uriError = nil
	if newURI == nil {
		r.hasURI = false
		return
	}
	newURI.CopyTo(&r.uri)
	r.hasURI = true
}

// SetRequestURI sets the target: a whole URI, or, together with the Host field,
// path and query. It replaces what URI returned.
func (r *Request) SetRequestURI(requestURI string) { r.SetRequestURIBytes(ascii.Bytes(requestURI)) }

// SetRequestURIBytes is SetRequestURI for bytes.
func (r *Request) SetRequestURIBytes(requestURI []byte) {
	r.Header.SetRequestURIBytes(requestURI)
	r.hasURI, r.uriError = false, nil
}

// RequestURI returns the target as it is written: if URI was used, path and
// query of that, which then are also the target in Header. The target of CONNECT
// has neither: it is what was received or set.
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
