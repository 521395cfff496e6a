// Command upload stores files of any size in constant memory, and keeps none that did
// not arrive completely.
//
//	go run ./examples/upload -dir /tmp
//	head -c 1G /dev/zero | curl -T - http://127.0.0.1:8080/files/zeros
//	curl -F a=@README.md -F b=@LICENSE http://127.0.0.1:8080/files   # or / in a browser
package main

import (
	"flag"
	"log"
	"time"

	"github.com/sluicehttp/sluice"
)

const form = `<!doctype html>
<title>Upload</title>
<form action="/files" method="post" enctype="multipart/form-data">
<input type="file" name="file" multiple> <button>Send</button>
</form>
`

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	dir := flag.String("dir", ".", "folder to store files in")
	limit := flag.Int64("max", 4<<30, "largest file, in bytes")
	flag.Parse()
	store, err := openStore(*dir, *limit)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", *addr)
	log.Fatal(newServer(&uploader{store, 30 * time.Second}).ListenAndServe(*addr))
}

func newServer(u *uploader) *sluice.Server {
	return &sluice.Server{
		Handler: u.handle,
		// Call the handler when the head has arrived. What it does not read stays in
		// the socket, and the client must wait. MaxRequestBodySize does not limit a
		// stream: the handler does.
		StreamRequestBody: true,
		ReadTimeout:       10 * time.Second, // for heads; patientReader limits bodies
		WriteTimeout:      10 * time.Second,
	}
}
