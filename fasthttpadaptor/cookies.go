package fasthttpadaptor

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"

	"github.com/sluicehttp/sluice"
	"golang.org/x/net/publicsuffix"
)

// A CookieJar is a sluice.RoundTripper that adds the cookies of a jar to requests, and keeps those of
// the responses in it (RFC 6265), redirects and failed attempts included. Set it as the Transport of a
// Client or HostClient; an http.Client has a Jar of its own. Its fields must not be changed while it is
// used. Its methods may be called concurrently if those of Next may.
//
// A cookie that the request has already is sent instead of the jar's of that name. The jar belongs
// to one user: give each one a Client, or a CookieJar, of its own.
type CookieJar struct {
	// Jar keeps the cookies. It must be set. That of package cookiejar does not limit how many servers
	// may set.
	Jar http.CookieJar
	// Next sends the requests; nil is sluice.DefaultTransport.
	Next sluice.RoundTripper
}

var _ sluice.RoundTripper = (*CookieJar)(nil)

// NewCookieJar returns a CookieJar with an empty jar, which refuses cookies for public
// suffixes such as co.uk, by the list that golang.org/x/net/publicsuffix has.
func NewCookieJar() *CookieJar {
	jar, err := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List})
	if err != nil {
		panic(err) // it never fails
	}
	return &CookieJar{Jar: jar}
}

// RoundTrip implements sluice.RoundTripper. When it returns, the request has the cookies that it had before.
func (j *CookieJar) RoundTrip(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (retry bool, err error) {
	next := j.Next
	if next == nil {
		next = sluice.DefaultTransport
	}
	uri := req.URI()
	u := &url.URL{Scheme: string(uri.Scheme()), Host: string(uri.Host()), Path: string(uri.Path())}
	if kept := j.Jar.Cookies(u); len(kept) > 0 {
		before := string(req.Header.Peek(sluice.HeaderCookie))
		all := before
		for _, cookie := range kept {
			if len(req.Header.Cookie(cookie.Name)) > 0 {
				continue
			}
			if all != "" {
				all += "; "
			}
			all += (&http.Cookie{Name: cookie.Name, Value: cookie.Value, Quoted: cookie.Quoted}).String()
		}
		req.Header.DelAllCookies() // Set adds
		req.Header.Set(sluice.HeaderCookie, all)
		defer func() {
			req.Header.DelAllCookies()
			if before != "" {
				req.Header.Set(sluice.HeaderCookie, before)
			}
		}()
	}
	if retry, err = next.RoundTrip(c, req, resp); err != nil {
		return retry, err
	}
	var set []*http.Cookie
	for _, line := range resp.Header.Cookies() {
		if cookie, err := http.ParseSetCookie(string(line)); err == nil {
			set = append(set, cookie)
		}
	}
	if len(set) > 0 {
		j.Jar.SetCookies(u, set)
	}
	return retry, nil
}
