package sluice

import (
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// doRedirects sends req with c and follows redirects. It reports whether resp is a complete
// response: after an error, the redirect that cannot be followed.
func doRedirects(call *clientCall, c doer, req *Request, resp *Response, most int) (isAnswered bool, err error) {
	if resp == nil {
		resp = AcquireResponse()
		defer ReleaseResponse(resp)
		call.wants = wantsNone
	}
	for followed := 0; ; followed++ {
		call.follows = followed < most
		hadStream := req.streamed() != nil
		before := *call
		err := c.do(call, req, resp)
		*call = before // each request has the request's time-out anew
		if err != nil {
			return false, err
		}
		if !StatusCodeIsRedirect(resp.StatusCode()) {
			return true, nil
		}
		if followed >= max(most, 0) {
			return true, ErrTooManyRedirects
		}
		if !isFollowed(&resp.Header) {
			return true, nil
		}
		if err := redirect(req, resp, hadStream); err != nil {
			return true, err
		}
	}
}

// isFollowed reports whether h is the head of a redirect that a client follows. A
// Location such as mailto:x is for the caller.
func isFollowed(h *ResponseHeader) bool {
	return StatusCodeIsRedirect(h.StatusCode()) && !uri.LeavesHTTP(h.location())
}

// redirect turns req into the request for which resp asks (RFC 9110 section
// 15.4).
func redirect(req *Request, resp *Response, hadStream bool) error {
	location := resp.Header.location()
	if len(location) == 0 {
		return ErrMissingLocation
	}
	status := resp.StatusCode()
	isGet := status == StatusSeeOther && !req.Header.IsHead() ||
		(status == StatusMovedPermanently || status == StatusFound) && req.Header.IsPost()
	switch {
	case isGet:
		dropContent(req)
	case hadStream:
		return ErrRedirectBodyStream
	}
	uri := req.URI()
	before := AcquireURI()
	defer ReleaseURI(before)
	uri.CopyTo(before)
	if err := uri.UpdateBytesErr(location); err != nil {
		return err
	}
	uri.DisablePathNormalizing = req.DisableRedirectPathNormalizing
	if scheme := string(uri.Scheme()); scheme != schemeHTTP && scheme != schemeHTTPS {
		return errRedirectScheme
	}
	switch {
	case !before.m.IsSameOrigin(&uri.m):
		dropCredentials(req)
		req.UseHostHeader = false // the Host was set for the earlier origin
	case len(uri.Username()) == 0:
		uri.SetUsernameBytes(before.Username())
		uri.SetPasswordBytes(before.Password())
	}
	return nil
}

// dropContent turns req into a GET without a body.
func dropContent(req *Request) {
	req.ResetBody()
	req.dropPostArgs()
	h := &req.Header
	h.SetMethod(MethodGet)
	for _, name := range [...]string{
		HeaderContentType, HeaderContentLength, HeaderContentEncoding, HeaderContentLanguage, HeaderContentLocation,
		HeaderTransferEncoding, HeaderExpect, HeaderTrailer, "Digest", "Content-Digest", "Last-Modified",
	} {
		h.delAny(name)
	}
}

// dropCredentials removes what must not be sent to another origin.
func dropCredentials(req *Request) {
	req.Header.DelCredentials()
	req.Header.Del(HeaderHost)
	uri := req.URI()
	uri.SetUsername("")
	uri.SetPassword("")
}
