// Command rest serves notes, each with a file, and has tokens, limits, CORS, a log and metrics.
//
//	go run ./examples/rest -token secret
//	curl -H 'Authorization: Bearer secret' -d '{"text":"buy milk"}' http://127.0.0.1:8080/notes
//	curl -H 'Authorization: Bearer secret' -T README.md http://127.0.0.1:8080/notes/1/file
//	curl http://127.0.0.1:9090/     # or open it in a browser
package main

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	"log"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/prefork/dashboard"
	"github.com/sluicehttp/sluice/router"
	"github.com/sluicehttp/sluice/shared"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	admin := flag.String("admin", "127.0.0.1:9090", "private address of the metrics")
	token := flag.String("token", rand.Text(), "what clients have to know")
	dir := flag.String("dir", os.TempDir(), "folder for the files of notes")
	flag.Parse()
	folder, err := os.OpenRoot(*dir)
	if err != nil {
		log.Fatal(err)
	}
	server := newServer(&notes{folder: folder}, *token)
	metrics := dashboard.Handler(prefork.NewSingle(server))
	go func() { log.Fatal(sluice.ListenAndServe(*admin, metrics)) }()
	log.Printf("listening on http://%s, token %s", *addr, *token)
	log.Fatal(server.ListenAndServe(*addr))
}

func newServer(n *notes, token string) *sluice.Server {
	limit := shared.Must(shared.Default().RateLimiter("rest", shared.RateLimit{Events: 600, Per: time.Minute}))
	r := &router.Router{}
	api := r.Group("/notes",
		middleware.CORS(middleware.CORSOptions{Origins: []string{"https://app.example.com"}, Methods: []string{"PUT", "DELETE"}, Headers: []string{"Authorization", "Content-Type"}}),
		middleware.RateLimit(limit, middleware.RateLimitOptions{}),
		middleware.BearerAuth("notes", middleware.Tokens(map[string]string{token: "owner"})),
		n.lock,
	)
	api.Handle("GET", n.list)
	api.Handle("POST", n.create)
	api.Handle("GET /{id}", n.one(n.show))
	api.Handle("DELETE /{id}", n.one(n.remove))
	api.Handle("PUT /{id}/file", n.one(n.upload))
	api.Handle("GET /{id}/file", n.one(n.download))
	return &sluice.Server{
		Handler: middleware.Use(r.Handler, // the outermost comes first
			middleware.RequestID,
			middleware.AccessLog(accesslog.Options{}), // with the route of each request
			middleware.Recover(nil),
			middleware.SecureHeaders(nil),
			middleware.Health(nil),
		),
		ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxRequestBodySize: 1 << 20,
	}
}

type note struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// notes are in memory, and their files in a folder, under the ids.
type notes struct {
	folder *os.Root
	mu     sync.Mutex
	all    []note
	last   int
}

// lock is a middleware: mu is held while the handlers run.
func (n *notes) lock(h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		n.mu.Lock()
		defer n.mu.Unlock()
		h(ctx)
	}
}

// one returns a handler that calls h with the index of the note that the path names.
func (n *notes) one(h func(ctx *sluice.RequestCtx, i int)) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		i := slices.IndexFunc(n.all, func(one note) bool { return one.ID == ctx.UserValue("id") })
		if i < 0 {
			ctx.Error("no such note", sluice.StatusNotFound)
			return
		}
		h(ctx, i)
	}
}

func (n *notes) list(ctx *sluice.RequestCtx) {
	answer(ctx, sluice.StatusOK, append([]note{}, n.all...)) // JSON has null for nil
}

func (n *notes) create(ctx *sluice.RequestCtx) {
	var one note
	if err := json.Unmarshal(ctx.PostBody(), &one); err != nil || one.Text == "" {
		ctx.Error("want a JSON object with a text", sluice.StatusUnprocessableEntity)
		return
	}
	n.last++
	one.ID = strconv.Itoa(n.last)
	n.all = append(n.all, one)
	answer(ctx, sluice.StatusCreated, one)
}

func (n *notes) show(ctx *sluice.RequestCtx, i int) { answer(ctx, sluice.StatusOK, n.all[i]) }

func (n *notes) remove(ctx *sluice.RequestCtx, i int) {
	n.folder.Remove(n.all[i].ID) // if there is one; the id is not used again
	n.all = slices.Delete(n.all, i, i+1)
	ctx.SetStatusCode(sluice.StatusNoContent)
}

func (n *notes) upload(ctx *sluice.RequestCtx, i int) {
	if err := n.folder.WriteFile(n.all[i].ID, ctx.PostBody(), 0o644); err != nil {
		panic(err) // middleware.Recover logs it, and answers 500
	}
	ctx.SetStatusCode(sluice.StatusNoContent)
}

func (n *notes) download(ctx *sluice.RequestCtx, i int) {
	if content, err := n.folder.ReadFile(n.all[i].ID); err == nil {
		ctx.Success("application/octet-stream", content)
	} else {
		ctx.Error("no file", sluice.StatusNotFound)
	}
}

func answer(ctx *sluice.RequestCtx, status int, v any) {
	text, _ := json.Marshal(v) // notes have no type that fails
	ctx.SetStatusCode(status)
	ctx.Success("application/json", text)
}
