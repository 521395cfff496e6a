package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// benchTarget is what "sluice bench" asks for, and where.
type benchTarget struct {
	url              *url.URL // without credentials
	network, address string
	request          []byte
	message          []byte // of WebSocket; nil: HTTP
}

// isWebSocket reports whether the URL is one of WebSocket.
func (o *benchOptions) isWebSocket() bool {
	scheme, _, hasScheme := strings.Cut(strings.ToLower(o.url), "://")
	return hasScheme && (scheme == "ws" || scheme == "wss")
}

// isSecure reports whether connections have TLS.
func (t *benchTarget) isSecure() bool { return t.url.Scheme == "https" || t.url.Scheme == "wss" }

// messageOf returns what is sent over WebSocket: --data, or letters.
func (o *benchOptions) messageOf(data []byte) []byte {
	if o.hasBody {
		return append([]byte{}, data...) // not nil
	}
	return bytes.Repeat([]byte("a"), o.messageSize)
}

// benchAgent is the User-Agent that the load generator sends.
const benchAgent = "sluice-bench"

// target returns what the flags say.
func (o *benchOptions) target(ctx context.Context) (t benchTarget, err error) {
	text := o.url
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	if t.url, err = url.Parse(text); err != nil {
		return t, cli.Misuse(fmt.Errorf("URL: %w", errors.Unwrap(err)))
	}
	switch {
	case t.url.Scheme != "http" && t.url.Scheme != "https" && !o.isWebSocket():
		return t, cli.Misuse(fmt.Errorf("URL: %s is neither http nor https", t.url.Scheme))
	case t.url.Hostname() == "":
		return t, cli.Misuse(errors.New("URL: there is no host"))
	case strings.ContainsFunc(t.url.Host, func(c rune) bool { return c > unicode.MaxASCII }):
		return t, cli.Misuse(errors.New("URL: write the host in ASCII (xn--...)"))
	}
	body, err := o.body(ctx)
	if err != nil {
		return t, err
	}
	user, err := userOf(t.url)
	if err != nil {
		return t, cli.Misuse(err)
	}
	if o.isWebSocket() {
		t.message = o.messageOf(body)
	}
	t.request = o.appendRequest(nil, t.url, user, body)
	t.url.User = nil
	if o.unixPath != "" {
		t.network, t.address = "unix", o.unixPath
		return t, nil
	}
	t.network = "tcp"
	t.address, err = resolveAddress(ctx, t.url, o.timeout)
	return t, err
}

// body returns the bytes of --data.
func (o *benchOptions) body(ctx context.Context) ([]byte, error) {
	name, isFile := strings.CutPrefix(o.data, "@")
	switch {
	case !isFile:
		return []byte(o.data + o.dataRaw), nil // one of them is empty
	case name == "":
		return nil, cli.Misuse(errors.New("--data: there is no name behind @"))
	case name == stdinName:
		body, err := readAll(ctx, os.Stdin)
		if err != nil {
			return nil, fmt.Errorf("--data: stdin: %w", err)
		}
		return body, nil
	}
	body, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	return body, nil
}

// readAll is io.ReadAll until ctx ends. Then in is still being read from.
func readAll(ctx context.Context, in io.Reader) ([]byte, error) {
	type outcome struct {
		body []byte
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		body, err := io.ReadAll(in)
		ended <- outcome{body, err}
	}()
	select {
	case o := <-ended:
		return o.body, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// appendRequest appends the request as it goes over the wire.
func (o *benchOptions) appendRequest(dst []byte, u *url.URL, user string, body []byte) []byte {
	type field struct{ name, value string }
	fields := []field{{"Host", hostField(u)}, {"User-Agent", benchAgent}}
	if u.User != nil {
		fields = append(fields, field{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user))})
	}
	hasBody := o.hasBody && !o.isWebSocket()
	if hasBody {
		fields = append(fields, field{"Content-Type", "application/x-www-form-urlencoded"})
	}
	if o.disableKeepAlive {
		fields = append(fields, field{"Connection", "close"})
	}
	if o.sse {
		fields = append(fields, field{"Accept", "text/event-stream"})
	}
	usual := len(fields)
	for _, text := range o.headers {
		name, value, isLeftOut := splitHeader(text)
		for i := range fields[:usual] {
			if strings.EqualFold(fields[i].name, name) {
				fields[i].name = ""
			}
		}
		if !isLeftOut {
			fields = append(fields, field{name, value})
		}
	}
	dst = fmt.Appendf(dst, "%s %s HTTP/1.1\r\n", o.method, requestTarget(u))
	for _, f := range fields {
		if f.name != "" {
			dst = fmt.Appendf(dst, "%s: %s\r\n", f.name, f.value)
		}
	}
	if hasBody {
		dst = fmt.Appendf(dst, "Content-Length: %d\r\n", len(body))
	}
	dst = append(dst, "\r\n"...)
	if !hasBody {
		return dst
	}
	return append(dst, body...)
}

// hostField returns host and port. The zone of an IPv6 address says which network
// of this machine is meant, and is none of the server's business (RFC 6874).
func hostField(u *url.URL) string {
	before, rest, hasZone := strings.Cut(u.Host, "%")
	if !hasZone {
		return u.Host
	}
	_, port, _ := strings.Cut(rest, "]")
	return before + "]" + port
}

// requestTarget returns path and query. What RFC 3986 does not allow there is
// escaped.
func requestTarget(u *url.URL) string {
	var uri sluice.URI
	_ = uri.Parse([]byte("h"), []byte(u.RequestURI())) // url.Parse has refused controls
	uri.DisablePathNormalizing = true
	return string(uri.RequestURI())
}

// resolveAddress returns the address to connect to. Of several, it is the first that
// accepts a connection.
func resolveAddress(ctx context.Context, u *url.URL, timeout time.Duration) (string, error) {
	port := u.Port()
	if port == "" && (u.Scheme == "https" || u.Scheme == "wss") {
		port = "443"
	} else if port == "" {
		port = "80"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", cli.Misuse(fmt.Errorf("URL: there is no port %s", port))
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return net.JoinHostPort(ip.String(), port), nil
	}
	lookupContext, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(lookupContext, "ip", u.Hostname())
	if err != nil {
		return "", err
	}
	if len(ips) == 1 {
		return net.JoinHostPort(ips[0].Unmap().String(), port), nil
	}
	var causes []string
	for _, ip := range ips {
		addr := net.JoinHostPort(ip.Unmap().String(), port)
		c, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", addr)
		if err == nil {
			c.Close()
			return addr, nil
		}
		causes = append(causes, err.Error())
	}
	return "", fmt.Errorf("cannot connect to %s: %s", u.Host, strings.Join(causes, "; "))
}
