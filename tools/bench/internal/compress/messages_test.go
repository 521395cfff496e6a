package compress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"math/rand/v2"
)

// sizes are the lengths of the messages, about.
var sizes = [...]int{1 << 10, 8 << 10, 64 << 10}

// levelsSize is the one with which levels are compared.
const levelsSize = 8 << 10

// messageCount is how many different messages there are of a size: compressors
// are faster with what they have just seen.
const messageCount = 8

// A record is a row of the shop that all benchmarks of JSON are about.
type record struct {
	ID       int      `json:"id"`
	Name     string   `json:"name"`
	Category string   `json:"category"`
	Price    float64  `json:"price"`
	Quantity int      `json:"quantity"`
	Active   bool     `json:"active"`
	Tags     []string `json:"tags"`
	Rating   rating   `json:"rating"`
	Updated  string   `json:"updated_at"`
	Digest   string   `json:"digest"`
}

type rating struct {
	Score float64 `json:"score"`
	Count int     `json:"count"`
}

// newMessages returns JSON of at least size bytes each, less than a record more.
// They are the same in every run.
func newMessages(size int) [][]byte {
	random := rand.New(rand.NewPCG(4, uint64(size)))
	messages := make([][]byte, messageCount)
	for i := range messages {
		message := []byte(`{"items":[`)
		for n := 0; len(message) < size; n++ {
			if n > 0 {
				message = append(message, ',')
			}
			text, err := json.Marshal(newRecord(random))
			if err != nil {
				panic(err) // a record has nothing that cannot be encoded
			}
			message = append(message, text...)
		}
		messages[i] = append(message, "]}"...)
	}
	return messages
}

func newRecord(random *rand.Rand) record {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	color := func() string {
		return pick("amber", "black", "blue", "copper", "crimson", "green", "grey", "ivory", "silver", "white")
	}
	thing := pick("backpack", "bottle", "camera", "chair", "desk", "drone", "headphones", "jacket", "kettle",
		"keyboard", "lamp", "monitor", "notebook", "racket", "shelf", "speaker", "tent", "watch")
	return record{
		ID:       random.IntN(1_000_000),
		Name:     fmt.Sprintf("%s %s %d", color(), thing, random.IntN(900)+100),
		Category: pick("electronics", "furniture", "kitchen", "outdoor", "sports", "stationery"),
		Price:    float64(random.IntN(100_000)) / 100,
		Quantity: random.IntN(500),
		Active:   random.IntN(4) > 0,
		Tags:     []string{pick("new", "sale", "limited", "classic"), color(), pick("small", "medium", "large")},
		Rating:   rating{Score: float64(random.IntN(50)) / 10, Count: random.IntN(3000)},
		Updated:  fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02dZ", random.IntN(12)+1, random.IntN(28)+1, random.IntN(24), random.IntN(60), random.IntN(60)),
		Digest:   fmt.Sprintf("%016x", random.Uint64()),
	}
}

// page is a page of the shop: a head, and a card for each record.
var page = template.Must(template.New("page").Parse(`{{define "head"}}<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>All offers</title>
<link rel="stylesheet" href="/assets/shop.css">
</head>
<body>
<main class="offers">
{{end}}{{define "card"}}<article class="offer{{if not .Active}} offer-sold-out{{end}}" id="offer-{{.ID}}" data-digest="{{.Digest}}">
  <h2><a href="/offers/{{.Category}}/{{.ID}}">{{.Name}}</a></h2>
  <p class="price">EUR <strong>{{.Price}}</strong>, <span class="stock">{{.Quantity}} in stock</span></p>
  <ul class="tags">{{range .Tags}}<li><a href="/tags/{{.}}">{{.}}</a></li>{{end}}</ul>
  <p class="rating">{{.Rating.Score}} of 5 by {{.Rating.Count}} customers, <time datetime="{{.Updated}}">{{.Updated}}</time></p>
</article>
{{end}}`))

// newPages returns HTML of at least size bytes each, about a card more. They are the
// same in every run.
func newPages(size int) [][]byte {
	const end = "</main>\n</body>\n</html>\n"
	random := rand.New(rand.NewPCG(5, uint64(size)))
	pages := make([][]byte, messageCount)
	write := func(to *bytes.Buffer, part string, data any) {
		if err := page.ExecuteTemplate(to, part, data); err != nil {
			panic(err) // every record fits
		}
	}
	for i := range pages {
		var text bytes.Buffer
		write(&text, "head", nil)
		for text.Len()+len(end) < size {
			write(&text, "card", newRecord(random))
		}
		text.WriteString(end)
		pages[i] = text.Bytes()
	}
	return pages
}
