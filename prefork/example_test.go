package prefork_test

import (
	"fmt"
	"log"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
)

// Each CPU has a worker process. SIGHUP replaces them one by one, without a failed request.
func Example() {
	requests, err := shared.Default().Counter("requests")
	if err != nil {
		log.Fatal(err)
	}
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		requests.Inc()
		fmt.Fprintf(ctx, "%d requests in all workers", requests.Value())
	}}
	p := prefork.New(server)
	p.ShutdownGracePeriod = 20 * time.Second
	p.Admin, p.AdminHandler = "127.0.0.1:9090", prefork.StatusHandler(p)
	p.OnWorkerStart = func(prefork.WorkerInfo) error { return nil } // open what each worker needs for itself
	if err := p.ListenAndServe(":8080"); err != nil {
		log.Fatal(err)
	}
}
