package fasthttpproxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// proxy is the address, protocol and user information of a proxy.
type proxy struct {
	scheme string // "http", "https" or "socks5"
	host   string // without brackets
	addr   string // "host:port"
	user   *url.Userinfo
}

var (
	errProxyHost   = errors.New("sluice: the proxy's address has no host")
	errProxyScheme = errors.New("sluice: proxy: unknown scheme")
	errProxyPath   = errors.New("sluice: the proxy's address has something behind the port")
	errProxyUser   = errors.New("control character in the user information, or a colon in the user name")
)

// parseProxy parses a proxy's URL. scheme is the default scheme. Errors do not
// repeat the URL, because it may contain a password.
func parseProxy(text, scheme string) (*proxy, error) {
	if !strings.Contains(text, "://") {
		text = scheme + "://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		if urlErr := (*url.Error)(nil); errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		return nil, &malformedProxyError{err}
	}
	return newProxy(u)
}

// malformedProxyError says why a proxy's URL is malformed.
type malformedProxyError struct{ cause error }

func (e *malformedProxyError) Error() string {
	return "sluice: malformed proxy address: " + e.cause.Error()
}

func (e *malformedProxyError) Unwrap() error { return e.cause }

// newProxy returns the proxy that u names.
func newProxy(u *url.URL) (*proxy, error) {
	p := &proxy{scheme: strings.ToLower(u.Scheme), host: u.Hostname(), user: u.User}
	port := u.Port()
	var usualPort string
	switch p.scheme {
	case "http":
		usualPort = "80"
	case "https":
		usualPort = "443"
	case "socks5", "socks5h":
		p.scheme, usualPort = "socks5", "1080"
	default:
		return nil, fmt.Errorf("%w: %s; use http, https, socks5 or socks5h", errProxyScheme, p.scheme)
	}
	if p.host == "" {
		return nil, errProxyHost
	}
	user := u.User.Username()
	password, _ := u.User.Password()
	if ascii.HasCTL(user+password) || p.scheme != "socks5" && strings.Contains(user, ":") { // RFC 7617 section 2
		return nil, &malformedProxyError{errProxyUser}
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errProxyPath
	}
	if port == "" {
		port = usualPort
	}
	p.addr = net.JoinHostPort(p.host, port)
	if _, _, err := net.SplitHostPort(p.addr); err != nil {
		return nil, &malformedProxyError{err} // brackets that url.Parse lets pass
	}
	return p, nil
}

// checkTarget returns an error for an address that is not exactly a host and a
// port. In a CONNECT request, it could end the line or mean something else.
func checkTarget(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return &net.AddrError{Err: "the port is not a number", Addr: addr}
	}
	if host == "" {
		return &net.AddrError{Err: "missing host in address", Addr: addr}
	}
	isBad := strings.ContainsFunc(host, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"#%/<>?@[\\]^`{|}", c)
	})
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		isBad = isBad || err != nil
	}
	if isBad {
		return &net.AddrError{Err: "invalid host", Addr: strconv.Quote(addr)}
	}
	return nil
}
