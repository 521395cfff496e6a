// Command rest is a small service: notes in JSON, each with a file, with tokens, limits and
// CORS, with logs and metrics.
//
//	go run ./examples/rest -token secret
//	curl -H 'Authorization: Bearer secret' -d '{"text":"buy milk"}' http://127.0.0.1:8080/notes
//	curl -H 'Authorization: Bearer secret' -T README.md http://127.0.0.1:8080/notes/1/file
//	curl http://127.0.0.1:9090/
package main

import (
	"crypto/rand"
	"flag"
	"log"
	"os"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/router"
	"github.com/sluicehttp/sluice/shared"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	admin := flag.String("admin", "127.0.0.1:9090", "address of the metrics")
	token := flag.String("token", rand.Text(), "what clients have to know")
	dir := flag.String("dir", os.TempDir(), "folder for the files of notes")
	flag.Parse()
	folder, err := os.OpenRoot(*dir)
	if err != nil {
		log.Fatal(err)
	}
	server, metrics := newServer(&notes{folder: folder}, *token)
	log.Printf("listening on http://%s, token %s", *addr, *token)
	go func() { log.Fatal(sluice.ListenAndServe(*admin, metrics)) }()
	log.Fatal(server.ListenAndServe(*addr))
}

// newServer returns the service, and what answers with its metrics.
func newServer(n *notes, token string) (server *sluice.Server, metrics sluice.RequestHandler) {
	limit := shared.Must(shared.Default().RateLimiter("rest", shared.RateLimit{Events: 600, Per: time.Minute}))
	r := &router.Router{}
	api := r.Group("/notes",
		middleware.CORS(middleware.CORSOptions{Origins: []string{"https://app.example.com"}, Methods: []string{"PUT", "DELETE"}, Headers: []string{"Authorization", "Content-Type"}}),
		middleware.RateLimit(limit, middleware.RateLimitOptions{}),
		middleware.BearerAuth("notes", middleware.Tokens(map[string]string{token: "owner"})),
	)
	api.Handle("GET", n.list)
	api.Handle("POST", n.create)
	api.Handle("GET /{id}", n.handle(n.show))
	api.Handle("DELETE /{id}", n.handle(n.remove))
	api.Handle("PUT /{id}/file", n.handle(n.upload))
	api.Handle("GET /{id}/file", n.handle(n.download))

	server = &sluice.Server{
		Handler: middleware.Use(r.Handler,
			middleware.RequestID,
			middleware.AccessLog(accesslog.Options{}), // with the route of each request
			middleware.Recover(nil),
			middleware.SecureHeaders(nil),
			middleware.Health(nil),
		),
		ReadTimeout:        10 * time.Second,
		IdleTimeout:        time.Minute,
		MaxRequestBodySize: 1 << 20,
	}
	return server, prefork.StatusHandler(prefork.NewSingle(server))
}
