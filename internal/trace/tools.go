package trace

// KindOfTool returns the neutral kind of a tool by the name that its agent gives it, [ToolOther] for a name that is in
// no agent's list.
func KindOfTool(name string) ToolKind {
	switch name {
	case "Read", "read", "read_file":
		return ToolRead
	case "Edit", "edit", "MultiEdit", "Write", "write", "write_file", "replace", "NotebookEdit", "apply_patch", "file_change":
		return ToolEdit
	case "delete":
		return ToolDelete
	case "move":
		return ToolMove
	case "Grep", "grep", "grep_search", "Glob", "glob", "list", "list_directory":
		return ToolSearch
	case "Bash", "bash", "exec_command", "command_execution", "run_shell_command":
		return ToolExecute
	case "TaskCreate", "TaskUpdate", "TodoWrite", "todowrite", "write_todos", "update_plan":
		return ToolThink
	case "WebFetch", "webfetch", "WebSearch":
		return ToolFetch
	case "Skill", "skill", "activate_skill":
		return ToolSkill
	case "Task", "task", "Agent":
		return ToolAgent
	case "AskUserQuestion", "ask_user", "request_user_input":
		return ToolAsk
	}
	return ToolOther
}
