package h2

import "encoding/binary"

// beginControl continues after the head of a frame that is neither DATA nor part of a
// field block.
func (p *Parser) beginControl(ev *Event) *Error {
	switch p.kind {
	case framePriority:
		if p.length != priorityLength {
			*ev = Event{Kind: EventStreamError, Stream: p.stream, Err: ErrPriorityLength}
			p.skip(p.length)
			return nil
		}
		return p.wait(atValues, priorityLength)
	case frameSettings:
		return p.beginSettings(ev)
	case frameReset, frameWindowUpdate:
		return p.waitFor(4, 4)
	case framePing:
		return p.waitFor(8, 8)
	case frameGoAway:
		return p.waitFor(8, MaxMaxFrameSize)
	case framePriorityUpdate:
		if p.Side == ClientSide {
			return ErrPriorityUpdate
		}
		return p.waitFor(4, MaxMaxFrameSize)
	}
	p.ignore(ev)
	return nil
}

// waitFor waits for the n bytes with which a frame begins that is at most longest
// bytes long.
func (p *Parser) waitFor(n uint8, longest uint32) *Error {
	if p.length < uint32(n) || p.length > longest {
		return ErrFrameLength
	}
	return p.wait(atValues, n)
}

func (p *Parser) ignore(ev *Event) {
	*ev = Event{Kind: EventIgnored, Stream: p.stream, Length: p.length}
	p.skip(p.left)
}

func (p *Parser) beginSettings(ev *Event) *Error {
	isAck := p.flags&flagAck != 0
	switch {
	case isAck && p.length > 0, p.length%settingSize != 0:
		return ErrFrameLength
	case isAck:
		ev.Kind = EventSettingsAck
	case p.length == 0:
		*ev = Event{Kind: EventSetting, Marks: FrameStart | EndSettings}
	default:
		p.marks = FrameStart
		return p.wait(atValues, settingSize)
	}
	p.toHead()
	return nil
}

// readValues reads the values of a control frame, or one setting.
func (p *Parser) readValues(b []byte, ev *Event) *Error {
	if p.kind == frameSettings {
		return p.readSetting(b, ev)
	}
	p.toHead()
	switch p.kind {
	case framePriority:
		if word(b) == p.stream {
			*ev = Event{Kind: EventStreamError, Stream: p.stream, Err: ErrSelfDependency}
			return nil
		}
		p.ignore(ev)
	case frameReset:
		*ev = Event{Kind: EventReset, Stream: p.stream, Code: Code(binary.BigEndian.Uint32(b))}
	case framePing:
		ev.Kind = EventPing
		if p.flags&flagAck != 0 {
			ev.Kind = EventPingAck
		}
		ev.Ping = [8]byte(b)
	case frameGoAway:
		*ev = Event{Kind: EventGoAway, Stream: word(b), Code: Code(binary.BigEndian.Uint32(b[4:]))}
		if p.left > 0 {
			p.state = inPieces
		}
	case frameWindowUpdate:
		return p.readIncrement(word(b), ev)
	case framePriorityUpdate:
		return p.readUpdated(word(b), ev)
	}
	return nil
}

func (p *Parser) readSetting(b []byte, ev *Event) *Error {
	id, value := SettingID(binary.BigEndian.Uint16(b)), binary.BigEndian.Uint32(b[2:])
	if err := checkSetting(p.Side, id, value); err != nil {
		return err
	}
	*ev = Event{Kind: EventSetting, Setting: id, Value: value, Marks: p.marks}
	if p.marks != 0 {
		ev.Length, p.marks = p.length, 0
	}
	if p.left == 0 {
		ev.Marks |= EndSettings
		p.toHead()
	}
	return nil
}

func (p *Parser) readIncrement(n uint32, ev *Event) *Error {
	switch {
	case n > 0:
		*ev = Event{Kind: EventWindowUpdate, Stream: p.stream, Value: n}
	case p.stream == 0:
		return ErrIncrement
	default:
		*ev = Event{Kind: EventStreamError, Stream: p.stream, Err: ErrStreamIncrement}
	}
	return nil
}

// readUpdated reads which stream a PRIORITY_UPDATE is about. Requests have odd numbers.
func (p *Parser) readUpdated(stream uint32, ev *Event) *Error {
	switch {
	case stream&1 == 0:
		return ErrPriorityUpdate
	case p.left > maxUpdateValue:
		p.ignore(ev)
		return nil
	case p.left == 0:
		*ev = Event{Kind: EventPriorityUpdate, Stream: stream}
		return nil
	}
	p.stream = stream
	return p.wait(atUpdate, uint8(p.left))
}
