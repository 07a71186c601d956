package gateway

import "encoding/json"

// scriptedAt is when every scripted answer says it was made, in seconds since 1970.
const scriptedAt = 1_767_225_600

// answerAnthropic speaks the Messages API.
func answerAnthropic(r *asked, a bound) (object, [][]byte) {
	blocks := []object{}
	for i, p := range a.parts {
		switch p.kind {
		case isThought:
			if r.thinks {
				blocks = append(blocks, object{"type": "thinking", "thinking": p.text, "signature": "c2NyaXB0"})
			}
		case isText:
			blocks = append(blocks, object{"type": "text", "text": p.text})
		case isCall:
			blocks = append(blocks, object{"type": "tool_use", "id": a.id("toolu_", i), "name": p.tool.name, "input": jsonOf(p.text)})
		}
	}
	stop := "end_turn"
	switch {
	case a.stop != "":
		stop = a.stop // refusal and max_tokens are its own words
	case a.calls():
		stop = "tool_use"
	}
	usage := func(output int) object {
		return object{"input_tokens": scriptInput + r.rounds, "cache_read_input_tokens": scriptCacheRead,
			"cache_creation_input_tokens": scriptCacheWrite, "output_tokens": output}
	}
	message := func(content []object, stop any, output int) object {
		return object{"id": a.id("msg_", 0), "type": "message", "role": "assistant", "model": r.model, "content": content,
			"stop_reason": stop, "stop_sequence": nil, "usage": usage(output)}
	}
	events := [][]byte{event("message_start", object{"type": "message_start", "message": message([]object{}, nil, 1)})}
	for i, b := range blocks {
		events = append(events, blockEvents(i, b)...)
	}
	events = append(events,
		event("message_delta", object{"type": "message_delta", "usage": usage(scriptOutput),
			"delta": object{"stop_reason": stop, "stop_sequence": nil}}),
		event("message_stop", object{"type": "message_stop"}))
	return message(blocks, stop, scriptOutput), events
}

// blockEvents streams one block of a message.
func blockEvents(i int, block object) [][]byte {
	start := object{"type": block["type"]}
	var deltas []object
	switch block["type"] {
	case "thinking":
		start["thinking"], start["signature"] = "", ""
		for _, s := range inPieces(textAt(block, "thinking")) {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": s})
		}
		deltas = append(deltas, object{"type": "signature_delta", "signature": block["signature"]})
	case "text":
		start["text"] = ""
		for _, s := range inPieces(textAt(block, "text")) {
			deltas = append(deltas, object{"type": "text_delta", "text": s})
		}
	default:
		start["id"], start["name"], start["input"] = block["id"], block["name"], object{}
		for _, s := range inPieces(jsonText(block["input"])) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": s})
		}
	}
	events := [][]byte{event("content_block_start", object{"type": "content_block_start", "index": i, "content_block": start})}
	for _, d := range deltas {
		events = append(events, event("content_block_delta", object{"type": "content_block_delta", "index": i, "delta": d}))
	}
	return append(events, event("content_block_stop", object{"type": "content_block_stop", "index": i}))
}

// openAIUsage is what a call used, in the words of Chat and Responses: input counts cached tokens too.
func openAIUsage(r *asked, in, out string) object {
	input := scriptInput + scriptCacheRead + r.rounds
	return object{in + "_tokens": input, in + "_tokens_details": object{"cached_tokens": scriptCacheRead},
		out + "_tokens": scriptOutput, out + "_tokens_details": object{"reasoning_tokens": scriptReasoning},
		"total_tokens": input + scriptOutput}
}

// answerChat speaks Chat Completions.
func answerChat(r *asked, a bound) (object, [][]byte) {
	stop := "stop"
	switch {
	case a.stop == "refusal":
		stop = "content_filter"
	case a.stop == "max_tokens":
		stop = "length"
	case a.calls():
		stop = "tool_calls"
	}
	body := func(kind string, choices []object) object {
		return object{"id": a.id("chatcmpl-", 0), "object": kind, "created": scriptedAt, "model": r.model, "choices": choices}
	}
	var events [][]byte
	chunk := func(delta object, stop any) {
		choice := object{"index": 0, "delta": delta, "finish_reason": stop}
		events = append(events, event("", body("chat.completion.chunk", []object{choice})))
	}
	message := object{"role": "assistant", "content": nil}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, s := range inPieces(a.text(isThought)) {
		chunk(object{"reasoning_content": s}, nil)
	}
	if said := a.text(isText); said != "" {
		message["content"] = said
		for _, s := range inPieces(said) {
			chunk(object{"content": s}, nil)
		}
	}
	var calls []object
	for i, p := range a.parts {
		if p.kind != isCall {
			continue
		}
		call := object{"id": a.id("call_", i), "type": "function", "function": object{"name": p.tool.name, "arguments": p.text}}
		n := len(calls)
		calls = append(calls, call)
		chunk(object{"tool_calls": []object{{"index": n, "id": call["id"], "type": "function",
			"function": object{"name": p.tool.name, "arguments": ""}}}}, nil)
		for _, s := range inPieces(p.text) {
			chunk(object{"tool_calls": []object{{"index": n, "function": object{"arguments": s}}}}, nil)
		}
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	chunk(object{}, stop)
	usage := openAIUsage(r, "prompt", "completion")
	if r.usage {
		last := body("chat.completion.chunk", []object{})
		last["usage"] = usage
		events = append(events, event("", last))
	}
	whole := body("chat.completion", []object{{"index": 0, "message": message, "finish_reason": stop}})
	whole["usage"] = usage
	return whole, append(events, []byte("data: [DONE]\n\n"))
}

// answerResponses speaks the Responses API.
func answerResponses(r *asked, a bound) (object, [][]byte) {
	items := []object{}
	for i, p := range a.parts {
		items = append(items, responseItem(a, i, p))
	}
	status, reason := "completed", any(nil)
	switch a.stop {
	case "refusal":
		status, reason = "incomplete", object{"reason": "content_filter"}
	case "max_tokens":
		status, reason = "incomplete", object{"reason": "max_output_tokens"}
	}
	response := func(status string, output []object, usage, reason any) object {
		return object{"id": a.id("resp_", 0), "object": "response", "created_at": scriptedAt, "status": status, "model": r.model,
			"output": output, "usage": usage, "error": nil, "incomplete_details": reason, "parallel_tool_calls": true,
			"tools": []any{}, "tool_choice": "auto", "metadata": object{}}
	}
	s := responseStream{}
	s.add("response.created", object{"response": response("in_progress", []object{}, nil, nil)})
	for i, item := range items {
		s.item(i, item)
	}
	whole := response(status, items, openAIUsage(r, "input", "output"), reason)
	s.add("response."+status, object{"response": whole})
	return whole, s.events
}

func responseItem(a bound, i int, p part) object {
	switch p.kind {
	case isThought:
		return object{"type": "reasoning", "id": a.id("rs_", i), "encrypted_content": nil,
			"summary": []object{{"type": "summary_text", "text": p.text}}}
	case isText:
		return object{"type": "message", "id": a.id("msg_", i), "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": p.text, "annotations": []any{}}}}
	}
	item := object{"call_id": a.id("call_", i), "name": p.tool.name, "status": "completed"}
	if p.tool.freeform {
		item["type"], item["id"], item["input"] = "custom_tool_call", a.id("ctc_", i), p.text
	} else {
		item["type"], item["id"], item["arguments"] = "function_call", a.id("fc_", i), p.text
	}
	if p.tool.namespace != "" {
		item["namespace"] = p.tool.namespace
	}
	return item
}

type responseStream struct{ events [][]byte }

func (s *responseStream) add(kind string, o object) {
	o["type"], o["sequence_number"] = kind, len(s.events)
	s.events = append(s.events, event(kind, o))
}

// item streams one item of the output: an empty one first, then its text in pieces, then the whole of it.
func (s *responseStream) item(i int, item object) {
	empty := object{}
	for k, v := range item {
		empty[k] = v
	}
	empty["status"] = "in_progress"
	var text func()
	switch item["type"] {
	case "reasoning":
		empty["summary"] = []any{}
		delete(empty, "status")
		text = func() {
			s.text(i, item, "response.reasoning_summary_part", "response.reasoning_summary_text", "summary")
		}
	case "message":
		empty["content"] = []any{}
		text = func() { s.text(i, item, "response.content_part", "response.output_text", "content") }
	case "function_call":
		empty["arguments"] = ""
		text = func() { s.arguments(i, item, "response.function_call_arguments", "arguments") }
	default:
		empty["input"] = ""
		text = func() { s.arguments(i, item, "response.custom_tool_call_input", "input") }
	}
	s.add("response.output_item.added", object{"output_index": i, "item": empty})
	text()
	s.add("response.output_item.done", object{"output_index": i, "item": item})
}

func (s *responseStream) text(i int, item object, part, text, member string) {
	whole := item[member].([]object)[0]
	index := map[string]string{"summary": "summary_index", "content": "content_index"}[member]
	add := func(kind string, name string, v any) {
		s.add(kind, object{"item_id": item["id"], "output_index": i, index: 0, name: v})
	}
	empty := object{"type": whole["type"], "text": ""}
	if member == "content" {
		empty["annotations"] = []any{}
	}
	add(part+".added", "part", empty)
	for _, p := range inPieces(textAt(whole, "text")) {
		add(text+".delta", "delta", p)
	}
	add(text+".done", "text", whole["text"])
	add(part+".done", "part", whole)
}

func (s *responseStream) arguments(i int, item object, kind, member string) {
	for _, p := range inPieces(textAt(item, member)) {
		s.add(kind+".delta", object{"item_id": item["id"], "output_index": i, "delta": p})
	}
	s.add(kind+".done", object{"item_id": item["id"], "output_index": i, member: item[member]})
}

// answerGemini speaks generateContent. Its thoughts are counted beside the candidates.
func answerGemini(r *asked, a bound) (object, [][]byte) {
	parts := []object{}
	for i, p := range a.parts {
		switch p.kind {
		case isThought:
			if r.thinks {
				parts = append(parts, object{"text": p.text, "thought": true})
			}
		case isText:
			parts = append(parts, object{"text": p.text})
		case isCall:
			parts = append(parts, object{"functionCall": object{"name": p.tool.name, "args": jsonOf(p.text), "id": a.id("fc_", i)}})
		}
	}
	stop := map[string]string{"": "STOP", "refusal": "SAFETY", "max_tokens": "MAX_TOKENS"}[a.stop]
	input := scriptInput + scriptCacheRead + r.rounds
	body := func(parts []object, stop string) object {
		candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
		if stop != "" {
			candidate["finishReason"] = stop
		}
		return object{"candidates": []object{candidate}, "responseId": a.id("", 0), "usageMetadata": object{
			"promptTokenCount": input, "cachedContentTokenCount": scriptCacheRead, "candidatesTokenCount": scriptOutput,
			"thoughtsTokenCount": scriptReasoning, "totalTokenCount": input + scriptOutput + scriptReasoning}}
	}
	var events [][]byte
	for _, p := range parts[:max(0, len(parts)-1)] {
		events = append(events, event("", body([]object{p}, "")))
	}
	events = append(events, event("", body(parts[max(0, len(parts)-1):], stop)))
	return body(parts, stop), events
}

// jsonOf is the JSON that a text holds, or the text itself.
func jsonOf(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// jsonText is the other way round.
func jsonText(v any) string {
	if raw, is := v.(json.RawMessage); is {
		return string(raw)
	}
	s, _ := v.(string)
	return s
}
