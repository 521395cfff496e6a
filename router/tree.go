package router

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/route"
)

// A node stands for the first segments of patterns: those on the way to it.
//
// A search looks at a node at most once, because there is one way to it. So a request costs
// at most as many steps as there are nodes, whatever its path is; most cost one for each
// segment. It only goes back from a node to one that matches more.
type node struct {
	literals edges  // to the nodes of literals
	wild     *node  // of {name}
	rests    routes // whose patterns end with {name...}, or "/", after here
	singles  int    // {name} on the way: as many spans have been found before
	ends     routes // whose patterns end here
}

// edges lead to the nodes of literals. A few are a list. More are a hash table of a power of two
// of edges, at most half of them with a node: its lines of memory are fewer than those of a map.
type edges struct {
	all  []edge
	used int
}

type edge struct {
	text string
	node *node // nil: of a table, and free
	hash uint32
}

// fewEdges are a list.
const fewEdges = 4

// find returns the node of text, nil if there is none.
func (e *edges) find(text []byte) *node {
	if e.used <= fewEdges {
		for i := range e.all {
			if e.all[i].text == string(text) {
				return e.all[i].node
			}
		}
		return nil
	}
	h := hash(text)
	for i := h; ; i++ {
		at := &e.all[i&uint32(len(e.all)-1)]
		if at.node == nil || at.hash == h && at.text == string(text) {
			return at.node
		}
	}
}

// add adds the node of text, which is not there.
func (e *edges) add(text string, n *node) {
	one := edge{text, n, hash([]byte(text))}
	if e.used++; e.used <= fewEdges {
		e.all = append(e.all, one)
		return
	}
	if e.used == fewEdges+1 || 2*e.used > len(e.all) {
		old := e.all
		e.all = make([]edge, 2<<bits.Len(uint(e.used)))
		for _, o := range old {
			if o.node != nil {
				e.put(o)
			}
		}
	}
	e.put(one)
}

func (e *edges) put(one edge) {
	i := one.hash
	for e.all[i&uint32(len(e.all)-1)].node != nil {
		i++
	}
	e.all[i&uint32(len(e.all)-1)] = one
}

// hash returns a number that differs for most texts. Only patterns fill tables: nobody can choose
// texts that collide.
func hash(text []byte) uint32 {
	const odd = 0x9e3779b97f4a7c15
	n := len(text)
	h, last := uint64(n), uint64(0)
	switch {
	case n >= 8:
		for rest := text; len(rest) > 8; rest = rest[8:] {
			h = (h ^ binary.LittleEndian.Uint64(rest)) * odd
			h ^= h >> 32
		}
		last = binary.LittleEndian.Uint64(text[n-8:])
	case n >= 4:
		last = uint64(binary.LittleEndian.Uint32(text)) | uint64(binary.LittleEndian.Uint32(text[n-4:]))<<32
	case n > 0:
		last = uint64(text[0]) | uint64(text[n/2])<<8 | uint64(text[n-1])<<16
	}
	return uint32((h ^ last) * odd >> 32)
}

// A leaf is a route of the tree.
type leaf struct {
	method  string
	text    string
	names   []string
	handler sluice.RequestHandler
	group   *Group   // nil: none
	pattern *pattern // for comparisons
}

// routes are leaves with the same segments, and different methods.
type routes []leaf

// of returns the route for a method, the one that takes fewest methods. It is nil if there
// is none.
func (r routes) of(method []byte) *leaf {
	var every, get *leaf
	for i := range r {
		switch l := &r[i]; l.method {
		case string(method):
			return l
		case "":
			every = l
		case "GET":
			get = l
		}
	}
	if get != nil && string(method) == "HEAD" {
		return get
	}
	return every
}

// children calls yield with all nodes directly below n.
func (n *node) children(yield func(*node)) {
	for _, e := range n.literals.all {
		if e.node != nil {
			yield(e.node)
		}
	}
	if n.wild != nil {
		yield(n.wild)
	}
}

// child returns the node of a segment, which it makes if there is none.
func (n *node) child(s segment) *node {
	if s.kind == single {
		if n.wild == nil {
			n.wild = &node{singles: n.singles + 1}
		}
		return n.wild
	}
	child := n.literals.find([]byte(s.text))
	if child == nil {
		child = &node{singles: n.singles}
		n.literals.add(s.text, child)
	}
	return child
}

// add adds a route whose pattern is in conflict with none.
func (n *node) add(l leaf) {
	for _, s := range l.pattern.segments {
		if s.kind == rest {
			n.rests = append(n.rests, l)
			return
		}
		n = n.child(s)
	}
	n.ends = append(n.ends, l)
}

// overlapping calls yield with the routes below n whose path may be one of segments, and
// possibly with others, until yield returns false.
func (n *node) overlapping(segments []segment, yield func(*leaf) bool) bool {
	if len(segments) == 0 {
		return n.ends.each(yield)
	}
	goesOn := n.rests.each(yield)
	below := func(child *node) { goesOn = goesOn && child.overlapping(segments[1:], yield) }
	switch s := segments[0]; s.kind {
	case literal:
		if child := n.literals.find([]byte(s.text)); child != nil {
			below(child)
		}
		if n.wild != nil {
			below(n.wild)
		}
	case single:
		n.children(below)
	case rest:
		n.children(func(child *node) { goesOn = goesOn && child.ends.each(yield) && child.overlapping(segments, yield) })
	}
	return goesOn
}

func (r routes) each(yield func(*leaf) bool) bool {
	for i := range r {
		if !yield(&r[i]) {
			return false
		}
	}
	return true
}

// A search looks for the route of a request.
type search struct {
	method    []byte
	path      []byte       // begins with a slash
	isEscaped bool         // path may have percent-encodings
	isCleaned bool         // path is not that of the request
	spans     []route.Span // of the wildcards that were found
	slash     bool         // a route may match the path with a slash after it
	rest      int          // where the rest begins that the route ends with; 0: it has none
}

// find returns the most specific route below n for the part of the path from at on, which is
// the beginning of a segment. It is nil if there is none.
func (s *search) find(n *node, at int) *leaf {
	for {
		end := bytes.IndexByte(s.path[at:], '/')
		isLast := end < 0
		if isLast {
			end = len(s.path)
		} else {
			end += at
		}
		next := s.literal(n, at, end)
		if next != nil {
			switch {
			case isLast:
				if l := s.last(next); l != nil {
					return l
				}
			case n.wild == nil && len(n.rests) == 0: // there is no need to come back
				n, at = next, end+1
				continue
			default:
				if l := s.find(next, end+1); l != nil {
					return l
				}
			}
		}
		if next = n.wild; next != nil && (end > at || !isLast) { // the path of CONNECT is not cleaned
			s.spans[n.singles] = route.Span{Start: uint32(at), End: uint32(end)}
			switch {
			case isLast:
				if l := s.last(next); l != nil {
					return l
				}
			case len(n.rests) == 0:
				n, at = next, end+1
				continue
			default:
				if l := s.find(next, end+1); l != nil {
					return l
				}
			}
		}
		l := n.rests.of(s.method)
		if l != nil {
			s.rest = at
			s.spans[n.singles] = route.Span{Start: uint32(at), End: uint32(len(s.path))}
		}
		return l
	}
}

// literal returns the node of a segment of the path below n, nil if there is none.
func (s *search) literal(n *node, at, end int) *node {
	text := s.path[at:end]
	if s.isEscaped && bytes.IndexByte(text, '%') >= 0 {
		return n.decoded(text)
	}
	return n.literals.find(text)
}

// decoded is literal for a text with percent-encodings.
func (n *node) decoded(text []byte) *node {
	var memory [128]byte
	return n.literals.find(route.AppendDecoded(memory[:0], text))
}

// last returns the route of n, which stands for the whole path.
func (s *search) last(n *node) *leaf {
	s.slash = s.slash || len(n.rests) > 0 || n.literals.find(nil) != nil
	return n.ends.of(s.method)
}

// all calls yield with all routes below n that match the path from at on, whatever their
// method is. The more specific ones come first.
func (s *search) all(n *node, at int, yield func(*leaf)) {
	end := bytes.IndexByte(s.path[at:], '/')
	isLast := end < 0
	if isLast {
		end = len(s.path)
	} else {
		end += at
	}
	each := func(l *leaf) bool { yield(l); return true }
	below := func(child *node) {
		switch {
		case child == nil:
		case isLast:
			child.ends.each(each)
		default:
			s.all(child, end+1, yield)
		}
	}
	below(s.literal(n, at, end))
	if end > at || !isLast {
		below(n.wild)
	}
	n.rests.each(each)
}
