package router

import (
	"fmt"
	"testing"
)

// TestEdges: a list and a table find each text and no other one, while they grow.
func TestEdges(t *testing.T) {
	var e edges
	nodes := map[string]*node{}
	for i := range 3000 {
		text := fmt.Sprint(i)
		if i%3 == 0 {
			text = fmt.Sprintf("segment-%016d-%d", i%7, i) // the same words at the beginning
		}
		nodes[text] = &node{}
		e.add(text, nodes[text])
		if i > 40 && i%500 != 0 {
			continue
		}
		for text, n := range nodes {
			if e.find([]byte(text)) != n {
				t.Fatalf("with %d edges, %s is not found", e.used, text)
			}
			if e.find([]byte(text+"x")) != nil || e.find(nil) != nil {
				t.Fatalf("with %d edges, %sx is found", e.used, text)
			}
		}
		if e.used > fewEdges && (2*e.used > len(e.all) || len(e.all) > 8*e.used) {
			t.Fatalf("%d edges have a table of %d", e.used, len(e.all))
		}
	}
}
