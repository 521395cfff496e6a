// A small JSON API with a router written by hand: groups, parameters,
// middleware, cookies, redirects, forms, uploads and an error handler.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

type Middleware func(next fasthttp.RequestHandler) fasthttp.RequestHandler

type route struct {
	method   string
	segments []string
	handler  fasthttp.RequestHandler
}

type Router struct {
	prefix     string
	middleware []Middleware
	routes     *[]route
}

func NewRouter() *Router { return &Router{routes: &[]route{}} }

func (r *Router) Group(prefix string, mw ...Middleware) *Router {
	all := append(append([]Middleware{}, r.middleware...), mw...)
	return &Router{prefix: r.prefix + prefix, middleware: all, routes: r.routes}
}

func (r *Router) Use(mw ...Middleware) { r.middleware = append(r.middleware, mw...) }

func (r *Router) Handle(method, path string, h fasthttp.RequestHandler) {
	for i := len(r.middleware) - 1; i >= 0; i-- {
		h = r.middleware[i](h)
	}
	segments := strings.Split(strings.Trim(r.prefix+path, "/"), "/")
	*r.routes = append(*r.routes, route{method, segments, h})
}

func (r *Router) GET(path string, h fasthttp.RequestHandler)  { r.Handle(fasthttp.MethodGet, path, h) }
func (r *Router) POST(path string, h fasthttp.RequestHandler) { r.Handle(fasthttp.MethodPost, path, h) }
func (r *Router) PUT(path string, h fasthttp.RequestHandler)  { r.Handle(fasthttp.MethodPut, path, h) }
func (r *Router) DELETE(path string, h fasthttp.RequestHandler) {
	r.Handle(fasthttp.MethodDelete, path, h)
}

// match fills the user values with the path's parameters.
func (rt *route) match(ctx *fasthttp.RequestCtx, parts [][]byte) bool {
	for i, s := range rt.segments {
		if strings.HasPrefix(s, "*") {
			ctx.SetUserValue(s[1:], string(bytes.Join(parts[i:], []byte("/"))))
			return true
		}
		if i >= len(parts) {
			return false
		}
		if strings.HasPrefix(s, ":") {
			ctx.SetUserValue(s[1:], string(parts[i]))
		} else if s != string(parts[i]) {
			return false
		}
	}
	return len(parts) == len(rt.segments)
}

func (r *Router) Handler(ctx *fasthttp.RequestCtx) {
	parts := bytes.Split(bytes.Trim(ctx.Path(), "/"), []byte("/"))
	method := string(ctx.Method())
	if ctx.IsHead() {
		method = fasthttp.MethodGet
	}
	var allowed []string
	for i := range *r.routes {
		rt := &(*r.routes)[i]
		if !rt.match(ctx, parts) {
			continue
		}
		if rt.method == method {
			rt.handler(ctx)
			return
		}
		allowed = append(allowed, rt.method)
	}
	if len(allowed) > 0 {
		ctx.Error(fasthttp.StatusMessage(fasthttp.StatusMethodNotAllowed), fasthttp.StatusMethodNotAllowed)
		ctx.Response.Header.Set(fasthttp.HeaderAllow, strings.Join(allowed, ", "))
		return
	}
	ctx.NotFound()
}

func writeJSON(ctx *fasthttp.RequestCtx, status int, v interface{}) {
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.SetStatusCode(status)
	if err := json.NewEncoder(ctx).Encode(v); err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
	}
}

func fail(ctx *fasthttp.RequestCtx, status int, format string, args ...interface{}) {
	ctx.ResetBody()
	writeJSON(ctx, status, map[string]string{"error": fmt.Sprintf(format, args...)})
}

// recovery answers 500 when a handler panics.
func recovery(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer func() {
			if r := recover(); r != nil {
				ctx.Response.Reset()
				fail(ctx, fasthttp.StatusInternalServerError, "panic: %v", r)
			}
		}()
		next(ctx)
	}
}

// requestID passes the client's id on, or makes one.
func requestID(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		id := ctx.Request.Header.Peek("X-Request-ID")
		if len(id) == 0 {
			id = append(id, "none"...)
		}
		ctx.SetUserValue("request-id", string(id))
		next(ctx)
		ctx.Response.Header.SetBytesV("X-Request-ID", id)
	}
}

func cors(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if origin := ctx.Request.Header.Peek("Origin"); len(origin) > 0 {
			ctx.Response.Header.SetBytesV("Access-Control-Allow-Origin", origin)
			ctx.Response.Header.Add("Vary", "Origin")
		}
		if ctx.IsOptions() {
			ctx.SetStatusCode(fasthttp.StatusNoContent)
			return
		}
		next(ctx)
	}
}

func basicAuth(user, password string) Middleware {
	want := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return func(next fasthttp.RequestHandler) fasthttp.RequestHandler {
		return func(ctx *fasthttp.RequestCtx) {
			auth := ctx.Request.Header.Peek("Authorization")
			if bytes.HasPrefix(auth, []byte("Basic ")) && string(auth[len("Basic "):]) == want {
				next(ctx)
				return
			}
			ctx.Error(fasthttp.StatusMessage(fasthttp.StatusUnauthorized), fasthttp.StatusUnauthorized)
			ctx.Response.Header.Set("WWW-Authenticate", `Basic realm="admin"`)
		}
	}
}

type User struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

type API struct {
	mu    sync.RWMutex
	users map[int]User
	next  int
}

func (a *API) list(ctx *fasthttp.RequestCtx) {
	args := ctx.QueryArgs()
	limit := args.GetUintOrZero("limit")
	prefix := args.Peek("prefix")
	a.mu.RLock()
	users := make([]User, 0, len(a.users))
	for _, u := range a.users {
		if strings.HasPrefix(u.Name, string(prefix)) {
			users = append(users, u)
		}
	}
	a.mu.RUnlock()
	sort.Slice(users, func(i, j int) bool { return users[i].ID < users[j].ID })
	if args.GetBool("desc") {
		sort.Slice(users, func(i, j int) bool { return users[i].ID > users[j].ID })
	}
	if limit > 0 && len(users) > limit {
		users = users[:limit]
	}
	writeJSON(ctx, fasthttp.StatusOK, users)
}

func (a *API) show(ctx *fasthttp.RequestCtx) {
	id, err := strconv.Atoi(ctx.UserValue("id").(string))
	if err != nil {
		fail(ctx, fasthttp.StatusBadRequest, "bad id %q", ctx.UserValue("id"))
		return
	}
	a.mu.RLock()
	u, ok := a.users[id]
	a.mu.RUnlock()
	if !ok {
		fail(ctx, fasthttp.StatusNotFound, "no user %d", id)
		return
	}
	writeJSON(ctx, fasthttp.StatusOK, u)
}

func (a *API) create(ctx *fasthttp.RequestCtx) {
	var u User
	switch {
	case bytes.HasPrefix(ctx.Request.Header.ContentType(), []byte("application/json")):
		if err := json.Unmarshal(ctx.PostBody(), &u); err != nil {
			fail(ctx, fasthttp.StatusUnprocessableEntity, "bad JSON")
			return
		}
	default:
		u.Name = string(ctx.PostArgs().Peek("name"))
	}
	if u.Name == "" {
		fail(ctx, fasthttp.StatusBadRequest, "no name")
		return
	}
	a.mu.Lock()
	a.next++
	u.ID = a.next
	a.users[u.ID] = u
	a.mu.Unlock()
	ctx.Response.Header.Set(fasthttp.HeaderLocation, fmt.Sprintf("/api/v1/users/%d", u.ID))
	writeJSON(ctx, fasthttp.StatusCreated, u)
}

func (a *API) remove(ctx *fasthttp.RequestCtx) {
	id, _ := strconv.Atoi(ctx.UserValue("id").(string))
	a.mu.Lock()
	delete(a.users, id)
	a.mu.Unlock()
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}

func login(ctx *fasthttp.RequestCtx) {
	name := string(ctx.FormValue("user"))
	if name == "" {
		ctx.Redirect("/login?failed=1", fasthttp.StatusSeeOther)
		return
	}
	c := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(c)
	c.SetKey("session")
	c.SetValue(name)
	c.SetPath("/")
	c.SetHTTPOnly(true)
	c.SetSecure(true)
	c.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	c.SetMaxAge(3600)
	ctx.Response.Header.SetCookie(c)
	ctx.Redirect("/whoami", fasthttp.StatusFound)
}

func logout(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.DelClientCookie("session")
	ctx.Redirect("../", fasthttp.StatusMovedPermanently)
}

func whoami(ctx *fasthttp.RequestCtx) {
	session := ctx.Request.Header.Cookie("session")
	if len(session) == 0 {
		ctx.Error("who are you?", fasthttp.StatusForbidden)
		return
	}
	ctx.SuccessString("text/plain", "you are "+string(session))
}

// echo describes the request, for debugging.
func echo(ctx *fasthttp.RequestCtx) {
	fmt.Fprintf(ctx, "method: %s\nuri: %s\npath: %s\nquery: %s\nhost: %s\nip: %s\n", ctx.Method(), ctx.RequestURI(),
		ctx.Path(), ctx.QueryArgs().QueryString(), ctx.Host(), ctx.RemoteIP())
	fmt.Fprintf(ctx, "referer: %s\nagent: %s\nmethod is post: %v\ntls: %v\n", ctx.Referer(), ctx.UserAgent(), ctx.IsPost(), ctx.IsTLS())
	ctx.QueryArgs().VisitAll(func(key, value []byte) { fmt.Fprintf(ctx, "arg %s=%s\n", key, value) })
	ctx.Request.Header.VisitAllCookie(func(key, value []byte) { fmt.Fprintf(ctx, "cookie %s=%s\n", key, value) })
	ctx.VisitUserValues(func(key []byte, value interface{}) { fmt.Fprintf(ctx, "value %s=%v\n", key, value) })
}

func upload(ctx *fasthttp.RequestCtx) {
	form, err := ctx.MultipartForm()
	if err != nil {
		if errors.Is(err, fasthttp.ErrNoMultipartForm) {
			fail(ctx, fasthttp.StatusUnsupportedMediaType, "want a form")
			return
		}
		fail(ctx, fasthttp.StatusBadRequest, "bad form")
		return
	}
	for name, values := range form.Value {
		fmt.Fprintf(ctx, "%s: %s\n", name, values)
	}
	fh, err := ctx.FormFile("file")
	if err != nil {
		fail(ctx, fasthttp.StatusBadRequest, "no file")
		return
	}
	f, err := fh.Open()
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	defer f.Close()
	var content bytes.Buffer
	content.ReadFrom(f)
	fmt.Fprintf(ctx, "%s, %d bytes: %s\n", fh.Filename, fh.Size, content.Bytes())
}

func report(ctx *fasthttp.RequestCtx) {
	var rows [][]string
	for i := 0; i < 200; i++ {
		rows = append(rows, []string{strconv.Itoa(i), strings.Repeat("value ", 5)})
	}
	writeJSON(ctx, fasthttp.StatusOK, rows)
}

func slow(ctx *fasthttp.RequestCtx) {
	time.Sleep(2 * time.Second)
	ctx.WriteString("done")
}

// onError answers requests that never reach the router.
func onError(ctx *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var timeout *net.OpError
	switch {
	case errors.As(err, &small):
		fail(ctx, fasthttp.StatusRequestHeaderFieldsTooLarge, "too long a header")
	case errors.As(err, &timeout) && timeout.Timeout():
		fail(ctx, fasthttp.StatusRequestTimeout, "timeout")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		fail(ctx, fasthttp.StatusRequestEntityTooLarge, "too large a body")
	default:
		fail(ctx, fasthttp.StatusBadRequest, "bad request")
	}
}

func newRouter() *Router {
	api := &API{users: map[int]User{1: {1, "ann"}, 2: {2, "bob"}}, next: 2}
	r := NewRouter()
	r.Use(recovery, requestID)
	r.GET("/", func(ctx *fasthttp.RequestCtx) { ctx.WriteString("hello") })
	r.GET("/login", func(ctx *fasthttp.RequestCtx) { ctx.WriteString("log in!") })
	r.POST("/login", login)
	r.GET("/account/logout", logout)
	r.GET("/whoami", whoami)
	r.GET("/echo/*rest", echo)
	r.POST("/echo/*rest", echo)
	r.POST("/upload", upload)
	r.GET("/panic", func(ctx *fasthttp.RequestCtx) { panic("oops") })
	r.GET("/slow", fasthttp.TimeoutHandler(slow, 50*time.Millisecond, "too slow"))
	r.GET("/report", fasthttp.CompressHandlerLevel(report, fasthttp.CompressBestSpeed))

	v1 := r.Group("/api/v1", cors)
	v1.GET("/users", api.list)
	v1.POST("/users", api.create)
	v1.GET("/users/:id", api.show)
	v1.DELETE("/users/:id", api.remove)
	v1.Handle(fasthttp.MethodOptions, "/users", func(ctx *fasthttp.RequestCtx) {})

	admin := r.Group("/admin", basicAuth("admin", "secret"))
	admin.GET("/stats/:name", func(ctx *fasthttp.RequestCtx) { fmt.Fprintf(ctx, "stats of %s", ctx.UserValue("name")) })
	return r
}

func main() {
	addr := flag.String("addr", ":8080", "TCP address to listen to")
	flag.Parse()
	s := &fasthttp.Server{
		Handler:            newRouter().Handler,
		ErrorHandler:       onError,
		Name:               "api",
		MaxRequestBodySize: 64 << 10,
		ReadTimeout:        5 * time.Second,
		WriteTimeout:       5 * time.Second,
		IdleTimeout:        30 * time.Second,
		Logger:             log.New(os.Stderr, "", log.LstdFlags),
	}
	ln, err := net.Listen("tcp4", *addr)
	if err != nil {
		log.Fatalf("error in net.Listen: %s", err)
	}
	fmt.Println("listening on", ln.Addr())
	if err := s.Serve(ln); err != nil {
		log.Fatalf("error in Serve: %s", err)
	}
}
