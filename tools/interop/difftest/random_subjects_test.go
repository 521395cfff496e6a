package difftest

//lint:file-ignore SA1019 deprecated names are compared, too

import (
	"bytes"
	"fmt"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// A randomDifference is one that stays. Both patterns have to match: script the
// name of the subject and the calls, seen every observation that differs.
type randomDifference struct{ row, script, seen string }

var randomDifferences = []randomDifference{
	{"D2", `^served .*205`, "^wire:"},
	{"D5", `SetBodyRaw.* Write`, ""},
	{"H6", `^served .*SetProtocol`, "^wire:"},
	{"H8", `^served .*HTTP/1.0.*onnection, `, "^wire:"},
	{"H8", `^served last .*onnection, keep-alive`, "^wire:"},
	{"H16", `^served .*Add\((Host|user-agent|set-cookie)`, "^(wire|call .*):"},
	{"S31", `^served .*Peek(All)?\(server\)`, "^call"},
	{"D9", `^served .*(204|304|NotModified).*SetBodyStream`, "^wire:"},
	{"S35", `^served .*SetBodyStream.*Header.Reset`, "^wire:"},
	{"S72", `^served .*(Request.Header.SetMethod|Request.Reset)`, "^wire:"},
	{"S75", `^served streamed .*TimeoutError`, "^wire:"},
	{"S72", `^served HEAD.*TimeoutError`, "^wire:"},
	{"D1", `HTTP/1.0.*SetBodyStream\(.*, -1\)|SetBodyStream\(.*, -1\).*HTTP/1.0`, "^(wire|body):"},
	{"D3", `SetBodyStream\("a=b&c=d", 4\)`, "^(wire|body|call .*):"},
	{"D5", `SetBodyRaw.*(AppendBody|SwapBody|BodyWriter)`, ""},
	{"D9", `SetContentLength|Content-Length: 3.*SetMethod\((GET|HEAD|get|X)\)`, "^(wire|body):"},
	{"D9", `SetBodyStream.*(SetContentLength|content-length)`, "^(wire|body|Header):"},
	{"D9", `^Request `, `^wire: fasthttp .*Content-Length: [1-9].*\\r\\n\\r\\n"\n`}, // and no body
	{"D31", `^Request .*(URI\(\)|Host\(\)).*Host`, "^(wire|URI):"},
	{"M1", `URI .*[#?][^"]* `, "^(String|parts|RequestURI):"},
	{"M8", `URI Update\("(https?:)?\?[^"]*#`, ""},
	{"D9", `^Request .*Again.*SetMethod\((HEAD|GET)\)`, "^wire:"},
	{"M12", `Cookie Parse.*expires`, ""},
	{"M29", `URI (Parse|Update).*"[^"]*[^"/][^"]*//`, ""},
	{"M15", `Cookie Parse.*Domain *=[^;]*\\"`, ""},
	{"M13", `Cookie Parse\(.*; *(\\"|= *)(secure|HttpOnly|samesite)`, ""},
	{"M3", `URI (Parse|Update).*//[^/"]*[&%: ;@+=]`, ""},
	{"M28", `Args .*%\+[&="]`, ""},
	{"S14", `expect.*Again`, ""},
	{"D31", `Request .*RequestURI\(\)`, ""},
	{"M4", `Host, "|SetHost\("`, ""},
	{"H6", `^Request(Header)? .*(SetProtocol\(HTTP/1.0\)|Read\("GET / HTTP/1.0)`, "^(String|wire):"},
	{"H6", `^Response(Header)? .*(SetProtocol|HTTP/1.0)`, "^(line|String|state|Peek Connection|VisitAll|keys|wire|Header):"},
	{"H8", `onnection[,:] [^|]*keep-alive.*(SetConnectionClose|SetContentLength\(-2\)|Again)`, "^(VisitAll|VisitAllInOrder|keys|String|Header|wire|Peek Connection|call .*):"},
	{"H9", `SetContentLength\(-2\)`, "^(state|call .*):"},
	{"H9", `Response(Header)? .*([cC]ontent-?[lL]ength|Again).*SetContentLength\(-2\)`, ""},
	{"H9", `Del\((transfer-encoding|content-length)\)`, ""},
	{"H9", `(SetContentLength\(-[12]\)|Transfer-Encoding: chunked).*content-length`, ""},
	{"H9", `Transfer-Encoding: chunked.*SetContentLength\(-2\)`, ""},
	{"H10", `Response(Header)? .*(SetStatusCode\((204|304)\)|HTTP/1.1 304)`, "^(String|wire):"},
	{"H9", `Trailer.*Again.*content-length`, "^(Header|wire):"},
	{"H11", `Add\(.*(Del|SetContentLength\(\d|onnection, (" )?close)`, "^(VisitAll|VisitAllInOrder|keys|String|Header|wire|fields|Peek .*|call .*):"},
	{"H16", `^Response.*Add\(server.*Trailer`, "^(VisitAll|VisitAllInOrder|keys|String|Header|wire|fields|Peek .*|call .*):"},
	{"H13", `SetCookie\(\w, "( |a=b; c=d)`, ""},
	{"H16", `^Request.*Set\(set-cookie`, ""},
	{"H80", `^(served|Request|Response) .*Add\((?i:Content-Encoding|Connection)`, "^(VisitAll|VisitAllInOrder|keys|String|Header|wire|fields|Peek .*|state|call .*):"},
	{"H80", `^(Request|Response)Header .*Add\((?i:Content-Encoding|Connection)`, "^(VisitAll|VisitAllInOrder|keys|String|Header|wire|fields|Peek .*|state|call .*):"},
	{"H16", `^Request.*Add\((server|date|set-cookie)`, "^(VisitAll|VisitAllInOrder|keys|String|Header|wire|fields|Peek .*|call .*):"},
	{"H16", `^Response.*Add\((Host|user-agent|set-cookie)`, "^(VisitAll|VisitAllInOrder|keys|String|Header|wire|fields|Peek .*|call .*):"},
	{"H18", `DisableNormalizing`, ""},
	{"H20", `(?i)server(\(|, )"".*Trailer|Trailer.*server(\(|, )""`, "^(VisitAll|VisitAllInOrder|keys|String|Header|wire):"},
	{"H23", `SetMultipartFormBoundary`, ""},
	{"H28", `SetContentLength\(-1\)|Transfer-Encoding: chunked|SetBodyStream\(.*, -1\)|^Request.*SetContentLength\(-2\)`, "^(VisitAll|keys|String|call .*|Header|wire):"},
	{"H20", `^Request .*Trailer.*Again`, "^Header:"},
	{"H28", `Trailer`, `^(wire|Header): fasthttp .*Transfer-Encoding.*\n.*sluice .*Transfer-Encoding`},
	{"D6", `SetBodyStream\(.*, [0-9]\).*Trailer|Trailer.*SetBodyStream\(.*, [0-9]\)`, "^(wire|body|Header|call .*):"},
	{"H30", `(?i)set-cookie(\(|, )"".*PeekAll\(set-cookie|Set\(cookie, ""`, ""},
}

func subjects() []subject {
	return []subject{argLists(), cookieValues(), uris(), requestHeads(), responseHeads(), requests(), responses()}
}

func argLists() subject {
	return subject{
		name:  "Args",
		fresh: func() (any, any) { return new(fasthttp.Args), new(sluice.Args) },
		calls: []string{
			"Set($key, $value)", "Set($key, $value)", "Add($key, $value)", "Add($key, $value)", "SetNoValue($key)", "AddNoValue($key)", "Del($key)",
			"SetUint($key, $number)", "Parse($query)", "Parse(@query)", "Reset()", "CopyTo()", "AddBytesK($key, $value)", "SetBytesKV($key, $value)",
			"GetUint($key)", "GetUfloat($key)", "GetBool($key)", "Has($key)", "Peek($key)", "PeekMulti($key)", "DelBytes($key)", "GetUintOrZero($key)",
		},
		pieces: map[string][]string{"query": {"a", "b", "=", "&", "%", "41", "+", ";", " ", "?", "\x00", "ä", "#"}},
		words: map[string][]string{
			"key":    {"a", "b", `"a b"`, `""`, `"%41"`, `"ä"`, "a=b"},
			"value":  {"1", "two", `""`, `"x&y"`, `"+ /?"`, "true", "1.5", "99999999999999999999", `"\x00"`, "%zz"},
			"number": {"0", "7", "1234567890"},
			"query":  {"a=1&b=2&a=3", `""`, `"&&"`, `"=x"`, `"a"`, `"a=&=b&c"`, `"a=%4"`, `"a=%41+b&%61=c"`, `"a=b=c;d"`, `"?a=1"`},
		},
		seen: func(v any) (o observations) {
			a := v.(interface {
				VisitAll(func(key, value []byte))
				Peek(string) []byte
				PeekMulti(string) [][]byte
				Has(string) bool
				GetBool(string) bool
				Len() int
				String() string
				QueryString() []byte
			})
			o.add("String", a.String())
			o.add("QueryString", a.QueryString())
			o.add("Len", a.Len())
			o.add("VisitAll", visited(a.VisitAll))
			for _, key := range []string{"a", "b", "a b", "", "%41"} {
				o.add("Peek "+key, a.Peek(key), a.PeekMulti(key), a.Has(key), a.GetBool(key))
			}
			return o
		},
	}
}

// visited lists what a visit shows.
func visited(visit func(func(key, value []byte))) []string {
	var all []string
	visit(func(key, value []byte) { all = append(all, fmt.Sprintf("%q=%q", key, value)) })
	return all
}

func cookieValues() subject {
	return subject{
		name:  "Cookie",
		fresh: func() (any, any) { return new(fasthttp.Cookie), new(sluice.Cookie) },
		calls: []string{
			"SetKey($key)", "SetValue($value)", "SetPath($path)", "SetDomain($domain)", "SetMaxAge($age)", "SetSecure($bool)", "SetHTTPOnly($bool)",
			"SetPartitioned($bool)", "Parse($cookie)", "Parse(@cookie)", "SetPath(@path)", "Reset()", "CopyTo()", "SetSameSite($mode)",
		},
		pieces: map[string][]string{
			"cookie": {"k", "=", "v", ";", "; ", " ", "path", "Domain", "max-age", "expires", "secure", "HttpOnly", "samesite", "lax", "1", "\"", ",", "/", "%41", "."},
			"path":   {"/", "a", ".", "..", "%2e", "%2F", "?", "b", "//"},
		},
		words: map[string][]string{
			"key":    {"k", "other", `""`, "k-2"},
			"value":  {"v", `""`, `"a b"`, `"\"q\""`, "x=y", `"a,b"`},
			"path":   {"/", "/a/b", `""`, "a", "/a//b/../c", `"/a%20b"`, `"/ä"`},
			"domain": {"example.com", `""`, ".example.com", "EXAMPLE"},
			"age":    {"0", "1", "3600"},
			"bool":   {"true", "false"},
			"mode":   {"0", "1", "2", "3", "4"},
			"cookie": {
				`"k=v"`, `"k=v; path=/a; domain=d; max-age=5; secure; httponly; SameSite=Lax"`, `"k"`, `""`, `"k=\"v\""`, `"=v"`, `"k=v; Path"`,
				`"k=v; expires=Tue, 10 Nov 2009 23:00:00 GMT"`, `"k=v;HttpOnly;Secure;samesite=none;Partitioned"`, `"k=v; SameSite=x"`, `" k = v "`,
				`"k=v; domain=.d.e; PATH=/A"`, `"k=v;;; ;x=y"`, `"a=b=c"`,
			},
		},
		seen: func(v any) (o observations) {
			switch c := v.(type) {
			case *fasthttp.Cookie:
				o.add("String", c.String())
				o.add("parts", c.Key(), c.Value(), c.Path(), c.Domain(), c.Cookie())
				o.add("values", c.MaxAge(), c.Expire().Unix(), c.Secure(), c.HTTPOnly(), c.Partitioned(), int(c.SameSite()))
			case *sluice.Cookie:
				o.add("String", c.String())
				o.add("parts", c.Key(), c.Value(), c.Path(), c.Domain(), c.Cookie())
				o.add("values", c.MaxAge(), c.Expire().Unix(), c.Secure(), c.HTTPOnly(), c.Partitioned(), int(c.SameSite()))
			}
			return o
		},
	}
}

func uris() subject {
	return subject{
		name:  "URI",
		fresh: func() (any, any) { return new(fasthttp.URI), new(sluice.URI) },
		calls: []string{
			"Parse($host, $uri)", "Update($uri)", "Parse($host, @uri)", "Update(@uri)", "SetPath(@uri)", "SetScheme($scheme)", "SetHost($host)", "SetPath($path)", "SetQueryString($query)",
			"SetHash($hash)", "SetUsername($user)", "SetPassword($user)", "Reset()", "CopyTo()", "QueryArgs().Set($key, $user)", "QueryArgs().Del($key)",
			"LastPathSegment()",
		},
		pieces: map[string][]string{"uri": {"/", "/", "a", "b", ".", "..", "?", "#", "=", "&", ":", "//", "http", "h2", "80", "%41", "%2F", " ", "+", ";", "@"}},
		words: map[string][]string{
			"host":   {"h", "H:80", `""`, "example.com:443", "[::1]:8080"},
			"uri":    {"/a", "/a/b?c=d#e", "http://u:p@h2/p?q#f", "//other/x", `"?x=y"`, `"#z"`, "rel", "../up", `""`, "/a//b/./c/../d", "https://h3", "HTTP://H4/", "a/b/", "/%41%2f%20+", `"/ä"`, "/?", "*"},
			"scheme": {"http", "https", "FTP", `""`},
			"path":   {"/x", `""`, "y", "/a//b", "/a/../b", "/%41", `"/a b"`, "/a/.", "/a/..", `"/a?b"`},
			"query":  {"a=b", `""`, "a=1&a=2", "%41=+"},
			"hash":   {"h", `""`},
			"user":   {"u", `""`, "1"},
			"key":    {"a", "c", "x"},
		},
		seen: func(v any) (o observations) {
			u := v.(interface {
				FullURI() []byte
				RequestURI() []byte
				Scheme() []byte
				Host() []byte
				Path() []byte
				PathOriginal() []byte
				QueryString() []byte
				Hash() []byte
				Username() []byte
				Password() []byte
				LastPathSegment() []byte
				String() string
			})
			o.add("parts", u.Scheme(), u.Host(), u.Path(), u.PathOriginal(), u.QueryString(), u.Hash(), u.Username(), u.Password(), u.LastPathSegment())
			o.add("RequestURI", u.RequestURI())
			o.add("String", u.String(), u.FullURI())
			return o
		},
	}
}

// headWords are the words of both headers' calls.
func headWords() map[string][]string {
	return map[string][]string{
		"name": {
			"x-a", "X-A", "x-b", "accept", "Referer", "content-type", "Content-Type", "Host", "user-agent", "server", "date", "content-encoding",
			"set-cookie", "connection", "content-length", "transfer-encoding", "expect", "vary", "location", "Trailer",
		},
		"value":   {"1", "two", `"a, b"`, `""`, "close", "keep-alive", "chunked", "12", `"a=b; c=d"`, "gzip", `" a "`, `" close "`},
		"length":  {"0", "5", "-1", "-2"},
		"bool":    {"true", "false"},
		"key":     {"a", "c", "k"},
		"status":  {"200", "204", "304", "404", "500", "299"},
		"method":  {"GET", "POST", "HEAD", "PUT", "get", "X"},
		"target":  {"/", "/a?b", "http://h/p", "//o/x", "*", `""`},
		"version": {"HTTP/1.1", "HTTP/1.0"},
		"trailer": {"x-t", `"x-a, x-t"`, `""`, "Server"},
		"request": {
			`"GET / HTTP/1.1\r\nHost: h\r\n\r\n"`, `"POST /p?q HTTP/1.1\r\nhost: h\r\nContent-Length: 3\r\nX-A: 1\r\nx-a: 2\r\n\r\nabc"`,
			`"GET / HTTP/1.0\r\n\r\n"`, `"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nCookie: a=b; c=d\r\n\r\n0\r\n\r\n"`,
			`"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\nAccept-Encoding: gzip, br\r\nUser-Agent: u\r\nReferer: r\r\n\r\n"`,
		},
		"response": {
			`"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"`, `"HTTP/1.1 404 Nope\r\nContent-Length: 0\r\nX-A: 1\r\nx-a: 2\r\nSet-Cookie: k=v; path=/\r\n\r\n"`,
			`"HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\n"`, `"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nServer: s\r\nDate: d\r\nConnection: close\r\nContent-Encoding: gzip\r\n\r\n3\r\nabc\r\n0\r\n\r\n"`,
			`"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"`,
		},
	}
}

// cookieWords adds the name that only requests have.
func cookieWords(words map[string][]string) map[string][]string {
	words["name"] = append(words["name"], "cookie")
	return words
}

// headCalls are those of both headers.
func headCalls() []string {
	return []string{
		"Set($name, $value)", "Set($name, $value)", "Set($name, $value)", "Add($name, $value)", "Add($name, $value)", "Add($name, $value)", "Del($name)", "Peek($name)", "PeekAll($name)",
		"SetContentLength($length)", "SetContentType($value)", "SetContentEncoding($value)", "SetConnectionClose()", "ResetConnectionClose()",
		"ConnectionClose()", "ContentLength()", "SetNoDefaultContentType($bool)", "DisableNormalizing()", "EnableNormalizing()", "DelAllCookies()",
		"DelCookie($key)", "Reset()", "CopyTo()", "Len()", "PeekKeys()", "SetTrailer($trailer)", "AddTrailer($trailer)",
	}
}

func requestHeads() subject {
	return subject{
		name:  "RequestHeader",
		fresh: func() (any, any) { return new(fasthttp.RequestHeader), new(sluice.RequestHeader) },
		calls: append(headCalls(), "SetHost($value)", "SetMethod($method)", "SetRequestURI($target)", "SetProtocol($version)", "SetUserAgent($value)",
			"SetReferer($value)", "SetCookie($key, $value)", "Cookie($key)", "SetByteRange($length, $length)", "SetMultipartFormBoundary($value)",
			"Read($request)", "Host()", "RequestURI()", "Method()", "UserAgent()", "HasAcceptEncoding($value)"),
		words: cookieWords(headWords()),
		seen: func(v any) (o observations) {
			h := v.(interface {
				common
				Host() []byte
				Method() []byte
				RequestURI() []byte
				Protocol() []byte
				UserAgent() []byte
				Referer() []byte
				ContentEncoding() []byte
				MultipartFormBoundary() []byte
				RawHeaders() []byte
				IsHTTP11() bool
				IsGet() bool
				Peek(string) []byte
				PeekAll(string) [][]byte
				Cookie(string) []byte
			})
			o.add("raw", h.RawHeaders()) // VisitAllInOrder changes fasthttp's
			o = append(o, seenOfHead(h, h.Peek, h.PeekAll)...)
			o.add("line", h.Method(), h.RequestURI(), h.Protocol(), h.IsHTTP11(), h.IsGet())
			o.add("fields", h.Host(), h.UserAgent(), h.Referer(), h.ContentEncoding(), h.MultipartFormBoundary())
			o.add("Cookie", h.Cookie("a"), h.Cookie("k"))
			return o
		},
	}
}

func responseHeads() subject {
	return subject{
		name:  "ResponseHeader",
		fresh: func() (any, any) { return new(fasthttp.ResponseHeader), new(sluice.ResponseHeader) },
		calls: append(headCalls(), "SetStatusCode($status)", "SetStatusMessage($value)", "SetProtocol($version)", "SetServer($value)",
			"DelClientCookie($key)", "PeekCookie($key)", "SetContentRange(0, 5, 10)", "Read($response)", "StatusCode()", "Server()", "StatusMessage()"),
		words: headWords(),
		seen: func(v any) (o observations) {
			h := v.(interface {
				common
				StatusCode() int
				StatusMessage() []byte
				Protocol() []byte
				Server() []byte
				ContentEncoding() []byte
				IsHTTP11() bool
				Peek(string) []byte
				PeekAll(string) [][]byte
				PeekCookie(string) []byte
			})
			o = seenOfHead(h, h.Peek, h.PeekAll)
			o.add("line", h.StatusCode(), h.StatusMessage(), h.Protocol(), h.IsHTTP11())
			o.add("fields", h.Server(), h.ContentEncoding())
			o.add("Cookie", h.PeekCookie("a"), h.PeekCookie("k"))
			return o
		},
	}
}

func seenOfHead(h common, peek func(string) []byte, peekAll func(string) [][]byte) (o observations) {
	o.add("VisitAll", visited(h.VisitAll))
	if ordered, ok := h.(interface{ VisitAllInOrder(func(key, value []byte)) }); ok {
		o.add("VisitAllInOrder", visited(ordered.VisitAllInOrder))
	}
	o.add("VisitAllCookie", visited(h.VisitAllCookie))
	o.add("keys", h.Len(), h.PeekKeys())
	o.add("trailer", h.TrailerHeader())
	for _, name := range []string{"x-a", "x-b", "Host", "Content-Type", "User-Agent", "Server", "Content-Length", "Connection", "Cookie", "Transfer-Encoding", "Date", "Trailer"} {
		all := peekAll(name)
		if len(all) == 1 && len(all[0]) == 0 {
			all = nil // VisitAll reports whether the field is there
		}
		o.add("Peek "+name, peek(name), all)
	}
	o.add("state", h.ContentLength(), h.ConnectionClose(), h.ConnectionUpgrade(), h.ContentType())
	o.add("String", h.String())
	return o
}

// bodyCalls are those of both messages.
func bodyCalls() []string {
	var all []string
	for _, call := range headCalls() {
		if call != "CopyTo()" && call != "Reset()" {
			all = append(all, "Header."+call)
		}
	}
	return append(all[:len(all):len(all)], "SetBody($body)", "SetBodyString($body)", "SetBodyRaw($body)", "AppendBody($body)", "AppendBodyString($body)", "SwapBody($body)",
		"ResetBody()", "ReleaseBody(0)", "SetBodyStream($body, 4)", "SetBodyStream($body, -1)", "SetBodyStream($body, 9)", "CloseBodyStream()", "Body()",
		"IsBodyStream()", "BodyGunzip()", "BodyUncompressed()", "Reset()", "CopyTo()", "Again()", "Again()", "Again()", "SetConnectionClose()", "ConnectionClose()")
}

func bodyWords() map[string][]string {
	words := headWords()
	words["body"] = []string{"body", `""`, `"a=b&c=d"`, "four"}
	words["trailer"] = []string{"x-t", `"x-a, x-t"`}
	return words
}

// seenOfBody adds what can be seen of a message's body. It comes last because
// it uses up a stream.
func (o *observations) seenOfBody(m message) {
	o.add("stream", m.IsBodyStream())
	var wire bytes.Buffer
	_, err := m.WriteTo(&wire)
	if err != nil {
		o.add("wire", "error")
	} else {
		o.add("wire", wire.Bytes())
	}
	o.add("body", m.Body(), m.IsBodyStream())
}

func requests() subject {
	return subject{
		name:  "Request",
		fresh: func() (any, any) { return new(fasthttp.Request), new(sluice.Request) },
		calls: append(bodyCalls(), "SetHost($value)", "Header.SetMethod($method)", "SetRequestURI($target)", "Header.SetProtocol($version)", "Header.SetHost(h)",
			"Header.SetCookie($key, $name)", "Read($request)", "Host()", "RequestURI()", "URI().SetPath($target)", "URI().SetHost($key)", "URI().SetQueryString($key)",
			"URI().QueryArgs().Set($key, $name)", "PostArgs().Set($key, $name)", "PostArgs().Peek($key)", "URI().Path()", "UseHostHeader.=$bool", "MayContinue()"),
		words: cookieWords(bodyWords()),
		seen: func(v any) (o observations) {
			switch r := v.(type) {
			case *fasthttp.Request:
				o.add("URI", r.URI().FullURI(), r.URI().QueryArgs().String(), r.Host())
				o.add("PostArgs", r.PostArgs().String())
				o.add("Header", visited(r.Header.VisitAll), r.Header.TrailerHeader())
			case *sluice.Request:
				o.add("URI", r.URI().FullURI(), r.URI().QueryArgs().String(), r.Host())
				o.add("PostArgs", r.PostArgs().String())
				o.add("Header", visited(r.Header.VisitAll), r.Header.TrailerHeader())
			}
			o.seenOfBody(v.(message))
			return o
		},
	}
}

func responses() subject {
	return subject{
		name:  "Response",
		fresh: func() (any, any) { return new(fasthttp.Response), new(sluice.Response) },
		calls: append(bodyCalls(), "SetStatusCode($status)", "Header.SetStatusMessage($value)", "Header.SetProtocol($version)", "Header.SetServer($value)",
			"Read($response)", "SkipBody.=$bool", "ImmediateHeaderFlush.=$bool"),
		words: bodyWords(),
		seen: func(v any) (o observations) {
			switch r := v.(type) {
			case *fasthttp.Response:
				o.add("Header", visited(r.Header.VisitAll), r.Header.TrailerHeader(), r.StatusCode())
			case *sluice.Response:
				o.add("Header", visited(r.Header.VisitAll), r.Header.TrailerHeader(), r.StatusCode())
			}
			o.seenOfBody(v.(message))
			return o
		},
	}
}
