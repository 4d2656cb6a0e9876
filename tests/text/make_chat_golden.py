"""Writes chat_golden.json with the model maker's library alone: ``python -m tests.text.make_chat_golden``."""

import json
from pathlib import Path

import deepseek_recipe

from tests.text.chat_conversations import CONVERSATIONS

FILE = Path(__file__).with_name("chat_golden.json")
TOKENIZER = Path(__file__).parents[2] / "deepinfer" / "data" / "mini" / "tokenizer.json"


def main() -> None:
    encoding = deepseek_recipe.DeepseekV41Encoding()
    encoding = encoding.with_tokenizer(deepseek_recipe.Tokenizer.from_file(str(TOKENIZER)))
    rows = {}
    for name, (messages, fields) in CONVERSATIONS.items():
        body = {"model": "DeepSeek-V4.1-Flash", "messages": messages, **fields}
        conversation = deepseek_recipe.ChatCompletionRequest(body).convert(deepseek_recipe.ConversionOptions())
        prompt = encoding.render_conversation(conversation.conversation).prompt
        rows[name] = {"text": prompt, "ids": encoding.encode(conversation.conversation)}
    lines = [f"{json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}" for name, row in rows.items()]
    header = json.dumps({"library": "deepseek-recipe", "version": deepseek_recipe.__version__})
    FILE.write_text("{\n" + f'"made_with": {header},\n' + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
