package faultproxy

import "time"

// Traffic understands a protocol: it tells messages apart and decides what becomes of each. Connections are
// numbered from 1 in the order in which they came. Package zkwire has one for ZooKeeper.
//
// Calls for the two directions of a connection, and for several connections, may come at the same time.
type Traffic interface {
	// Message returns the length of the message that data begins with, or 0 if its end has not come yet.
	Message(conn int, d Direction, data []byte) int
	// Judge says what becomes of a message, at the moment when it would be forwarded.
	Judge(conn int, d Direction, message []byte) Verdict
}

// A Verdict is what becomes of a message. The zero value forwards it.
type Verdict struct {
	Cut     bool            // resets the connection instead
	Instead []byte          // is forwarded in its place
	Delay   time.Duration   // forwards it, and all that follows it, this much later
	Until   <-chan struct{} // forwards it, and all that follows it, when this is closed
}

func (p *pump) unit(data []byte) int {
	if p.link.proxy.traffic == nil {
		return len(data)
	}
	return p.link.proxy.traffic.Message(p.link.number, p.direction, data)
}

// judge carries out the verdict. It returns what is to be forwarded now; nil: nothing.
func (p *pump) judge(message []byte) []byte {
	if p.link.proxy.traffic == nil {
		return message
	}
	v := p.link.proxy.traffic.Judge(p.link.number, p.direction, message)
	if v.Cut {
		p.link.cut()
		return nil
	}
	if v.Instead != nil {
		message = v.Instead
	}
	if v.Until != nil {
		select {
		case <-v.Until:
		case <-p.link.dead:
			return nil
		}
	}
	// A stall counts, too: it may have begun while the message was being kept back.
	if (v.Delay > 0 || v.Until != nil) && !p.admitAfter(v.Delay) {
		return nil
	}
	return message
}

func (p *pump) admitAfter(d time.Duration) bool {
	select {
	case <-time.After(d):
		return p.admit(time.Now())
	case <-p.link.dead:
		return false
	}
}
