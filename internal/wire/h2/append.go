package h2

import (
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

func appendHead(dst []byte, length int, kind frameType, flags uint8, stream uint32) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), byte(kind), flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// AppendSettings appends a SETTINGS frame with the values of s that differ from those
// in force.
func AppendSettings(dst []byte, s, inForce *Settings) []byte {
	start := len(dst)
	dst = appendHead(dst, 0, frameSettings, 0, 0)
	number := func(id SettingID, value, old uint32) {
		if value != old {
			dst = binary.BigEndian.AppendUint16(dst, uint16(id))
			dst = binary.BigEndian.AppendUint32(dst, value)
		}
	}
	number(SettingHeaderTableSize, s.HeaderTableSize, inForce.HeaderTableSize)
	number(SettingEnablePush, bit(s.EnablePush), bit(inForce.EnablePush))
	number(SettingMaxConcurrentStreams, s.MaxConcurrentStreams, inForce.MaxConcurrentStreams)
	number(SettingInitialWindowSize, s.InitialWindowSize, inForce.InitialWindowSize)
	number(SettingMaxFrameSize, s.MaxFrameSize, inForce.MaxFrameSize)
	number(SettingMaxHeaderListSize, s.MaxHeaderListSize, inForce.MaxHeaderListSize)
	number(SettingEnableConnectProtocol, bit(s.EnableConnectProtocol), bit(inForce.EnableConnectProtocol))
	number(SettingNoRFC7540Priorities, bit(s.NoRFC7540Priorities), bit(inForce.NoRFC7540Priorities))
	dst[start+2] = byte(len(dst) - start - FrameHeadSize) // at most 8 settings
	return dst
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// AppendSettingsAck appends the acknowledgement of a SETTINGS frame.
func AppendSettingsAck(dst []byte) []byte {
	return appendHead(dst, 0, frameSettings, flagAck, 0)
}

// BeginHeaders appends room for the head of a HEADERS frame. Append the field block,
// then call FinishHeaders with the length that dst had before.
func BeginHeaders(dst []byte) []byte {
	return append(dst, make([]byte, FrameHeadSize)...)
}

// FinishHeaders completes the HEADERS frame that BeginHeaders began at dst[start:], and
// divides the field block into CONTINUATION frames if it is longer than maxFrame, the
// peer's SETTINGS_MAX_FRAME_SIZE. isLast: the stream ends with this block.
func FinishHeaders(dst []byte, start int, stream uint32, isLast bool, maxFrame uint32) []byte {
	size := int(maxFrame)
	length := len(dst) - start - FrameHeadSize
	var flags uint8
	if isLast {
		flags = flagEndStream
	}
	if length <= size {
		appendHead(dst[:start], length, frameHeaders, flags|flagEndHeaders, stream)
		return dst
	}
	appendHead(dst[:start], size, frameHeaders, flags, stream)
	more := (length - 1) / size
	dst = append(dst, make([]byte, more*FrameHeadSize)...)
	first := start + FrameHeadSize
	// From the end: each piece moves by the heads before it.
	for i := more; i > 0; i-- {
		from := first + i*size
		n := min(size, first+length-from)
		to := from + i*FrameHeadSize
		copy(dst[to:to+n], dst[from:from+n])
		flags = 0
		if i == more {
			flags = flagEndHeaders
		}
		appendHead(dst[:to-FrameHeadSize], n, frameContinuation, flags, stream)
	}
	return dst
}

// AppendHeaders appends an encoded field block as a HEADERS frame, and as CONTINUATION
// frames if it is longer than maxFrame. isLast: the stream ends with this block.
func AppendHeaders(dst []byte, stream uint32, block []byte, isLast bool, maxFrame uint32) []byte {
	start := len(dst)
	return FinishHeaders(append(BeginHeaders(dst), block...), start, stream, isLast, maxFrame)
}

// AppendDataHead appends the head of a DATA frame. The caller appends length bytes, at
// most the peer's SETTINGS_MAX_FRAME_SIZE. isLast: the stream ends with them.
func AppendDataHead(dst []byte, stream uint32, length int, isLast bool) []byte {
	var flags uint8
	if isLast {
		flags = flagEndStream
	}
	return appendHead(dst, length, frameData, flags, stream)
}

// AppendReset appends RST_STREAM.
func AppendReset(dst []byte, stream uint32, code Code) []byte {
	return binary.BigEndian.AppendUint32(appendHead(dst, 4, frameReset, 0, stream), uint32(code))
}

// AppendGoAway appends GOAWAY. last is the highest stream that was or may be processed.
// debug is text for people; of more than 1 KiB the beginning is sent.
func AppendGoAway(dst []byte, last uint32, code Code, debug string) []byte {
	debug = debug[:min(len(debug), 1<<10)]
	dst = appendHead(dst, 8+len(debug), frameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, debug...)
}

// AppendPing appends PING. isAck: it answers a PING with that data.
func AppendPing(dst []byte, data [8]byte, isAck bool) []byte {
	var flags uint8
	if isAck {
		flags = flagAck
	}
	return append(appendHead(dst, len(data), framePing, flags, 0), data[:]...)
}

// AppendWindowUpdate appends WINDOW_UPDATE for a stream, 0 for the connection. The
// increment is from 1 to 2^31-1.
func AppendWindowUpdate(dst []byte, stream, increment uint32) []byte {
	return binary.BigEndian.AppendUint32(appendHead(dst, 4, frameWindowUpdate, 0, stream), increment)
}

// AppendPriorityUpdate appends PRIORITY_UPDATE, which only clients send (RFC 9218
// section 7.1).
func AppendPriorityUpdate(dst []byte, stream uint32, p fieldlist.Priority) []byte {
	start := len(dst)
	dst = appendHead(dst, 0, framePriorityUpdate, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, stream)
	dst = fieldlist.AppendPriority(dst, p)
	dst[start+2] = byte(len(dst) - start - FrameHeadSize)
	return dst
}
