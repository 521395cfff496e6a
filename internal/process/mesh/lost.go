package mesh

// mostLost is how many rooms a peer is told of one by one.
const mostLost = 16

// lost is the rooms of which messages were dropped. The zero value has none.
type lost struct {
	topics []topic
	isAny  bool // more than mostLost
}

type topic struct{ plane, room string }

func (l *lost) isEmpty() bool { return len(l.topics) == 0 && !l.isAny }

func (l *lost) add(plane, room string) {
	if l.isAny {
		return
	}
	for _, t := range l.topics {
		if t.plane == plane && t.room == room {
			return
		}
	}
	if len(l.topics) == mostLost {
		*l = lost{isAny: true}
		return
	}
	l.topics = append(l.topics, topic{plane, room})
}

// appendTo appends the frames that tell of it.
func (l *lost) appendTo(dst []byte) []byte {
	if l.isAny {
		return appendFrame(dst, frameGap, "", "", nil)
	}
	for _, t := range l.topics {
		dst = appendFrame(dst, frameGap, t.plane, t.room, nil)
	}
	return dst
}
