package router

import (
	"bytes"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/route"
)

// A node stands for the first segments of patterns: those on the way to it.
//
// A search looks at a node at most once, because there is one way to it. So a request costs
// at most as many steps as there are nodes, whatever its path is; most cost one for each
// segment. It only goes back from a node to one that matches more.
type node struct {
	few     []edge           // to the nodes of literals, if they are few
	many    map[string]*node // to the same, if they are many; nil: few has them
	wild    *node            // of {name}
	ends    routes           // whose patterns end here
	rests   routes           // whose patterns end with {name...}, or "/", after here
	singles int              // {name} on the way: as many spans have been found before
}

type edge struct {
	text string
	node *node
}

// fewEdges is from how many literals on a map is faster than looking at each.
const fewEdges = 6

// A leaf is a route of the tree.
type leaf struct {
	*pattern
	handler sluice.RequestHandler
	group   *Group // nil: none
}

// routes are leaves with the same segments, and different methods.
type routes []*leaf

// of returns the route for a method, the one that takes fewest methods. It is nil if there
// is none.
func (r routes) of(method []byte) *leaf {
	var every, get *leaf
	for _, l := range r {
		switch l.method {
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

// literal returns the node of a literal, nil if there is none.
func (n *node) literal(text []byte) *node {
	if n.many != nil {
		return n.many[string(text)]
	}
	for i := range n.few {
		if n.few[i].text == string(text) {
			return n.few[i].node
		}
	}
	return nil
}

// children calls yield with all nodes directly below n.
func (n *node) children(yield func(*node)) {
	for _, child := range n.many {
		yield(child)
	}
	for _, e := range n.few {
		yield(e.node)
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
	if child := n.literal([]byte(s.text)); child != nil {
		return child
	}
	child := &node{singles: n.singles}
	switch {
	case n.many != nil:
		n.many[s.text] = child
	case len(n.few) < fewEdges:
		n.few = append(n.few, edge{s.text, child})
	default:
		n.many = map[string]*node{s.text: child}
		for _, e := range n.few {
			n.many[e.text] = e.node
		}
		n.few = nil
	}
	return child
}

// add adds a route whose pattern is in conflict with none.
func (n *node) add(l *leaf) {
	for _, s := range l.segments {
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
		if child := n.literal([]byte(s.text)); child != nil {
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
	for _, l := range r {
		if !yield(l) {
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
	return n.literal(text)
}

// decoded is literal for a text with percent-encodings.
func (n *node) decoded(text []byte) *node {
	var memory [128]byte
	return n.literal(route.AppendDecoded(memory[:0], text))
}

// last returns the route of n, which stands for the whole path.
func (s *search) last(n *node) *leaf {
	s.slash = s.slash || len(n.rests) > 0 || n.literal(nil) != nil
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
