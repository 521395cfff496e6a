package main

import (
	"encoding/json"
	"log"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/router"
)

// A note has a text, and a file in the folder if one was uploaded.
type note struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
}

// notes are in memory, and their files in a folder, under the ids.
type notes struct {
	folder *os.Root
	mu     sync.Mutex
	all    []note
	last   int
}

// handle returns a handler that calls h with the position of the note that the path names. mu
// is held.
func (n *notes) handle(h func(ctx *sluice.RequestCtx, i int)) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		n.mu.Lock()
		defer n.mu.Unlock()
		id := string(router.Param(ctx, "id"))
		i := slices.IndexFunc(n.all, func(one note) bool { return strconv.Itoa(one.ID) == id })
		if i < 0 {
			ctx.Error("no such note", sluice.StatusNotFound)
			return
		}
		h(ctx, i)
	}
}

func (n *notes) list(ctx *sluice.RequestCtx) {
	n.mu.Lock()
	defer n.mu.Unlock()
	write(ctx, sluice.StatusOK, append([]note{}, n.all...)) // JSON has null for nil
}

func (n *notes) create(ctx *sluice.RequestCtx) {
	var one note
	if err := json.Unmarshal(ctx.PostBody(), &one); err != nil || one.Text == "" {
		ctx.Error("want a JSON object with a text", sluice.StatusUnprocessableEntity)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	one.ID = n.last
	n.all = append(n.all, one)
	write(ctx, sluice.StatusCreated, one)
}

func (n *notes) show(ctx *sluice.RequestCtx, i int) { write(ctx, sluice.StatusOK, n.all[i]) }

func (n *notes) remove(ctx *sluice.RequestCtx, i int) {
	n.folder.Remove(strconv.Itoa(n.all[i].ID)) // if there is one; the id is not used again
	n.all = slices.Delete(n.all, i, i+1)
	ctx.SetStatusCode(sluice.StatusNoContent)
}

func (n *notes) upload(ctx *sluice.RequestCtx, i int) {
	if err := n.folder.WriteFile(strconv.Itoa(n.all[i].ID), ctx.PostBody(), 0o644); err != nil {
		log.Print(err) // which has the name of the folder
		ctx.Error("not stored", sluice.StatusInternalServerError)
		return
	}
	ctx.SetStatusCode(sluice.StatusNoContent)
}

func (n *notes) download(ctx *sluice.RequestCtx, i int) {
	content, err := n.folder.ReadFile(strconv.Itoa(n.all[i].ID))
	if err != nil {
		ctx.Error("no file", sluice.StatusNotFound)
		return
	}
	ctx.Success("application/octet-stream", content)
}

func write(ctx *sluice.RequestCtx, status int, v any) {
	text, _ := json.Marshal(v) // notes have no type that fails
	ctx.SetStatusCode(status)
	ctx.Success("application/json", text)
}
