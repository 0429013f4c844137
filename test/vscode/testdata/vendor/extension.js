// A language-model vendor with answers from the test: every request is forwarded
// to the test's server, which streams back parts, one JSON object per line.
const vscode = require('vscode');
const http = require('node:http');

const server = process.env.BRIDGE_TEST_MODEL;

exports.activate = (context) => {
	let signedIn = true;
	const changed = new vscode.EventEmitter();
	// The server reports when the user signs out or in.
	lines('/session', undefined, undefined, (m) => {
		signedIn = m.signedIn;
		changed.fire();
	}).catch((e) => console.error('the test has gone', e));
	context.subscriptions.push(
		vscode.lm.registerLanguageModelChatProvider('copilot', {
			onDidChangeLanguageModelChatInformation: changed.event,
			provideLanguageModelChatInformation: async () =>
				signedIn
					? ['gpt-test', 'claude-test'].map((id) => ({
							id,
							name: id,
							family: id,
							version: '1',
							maxInputTokens: 100000,
							maxOutputTokens: 10000,
							capabilities: { toolCalling: true, imageInput: true },
							isUserSelectable: true,
							requiresAuthorization: { label: 'A vendor named copilot' },
						}))
					: [],
			provideTokenCount: async (_model, text) => String(text).length,
			provideLanguageModelChatResponse: async (model, messages, options, progress, token) => {
				const body = { model: model.id, messages: messages.map(message), tools: options.tools ?? [], toolMode: options.toolMode, modelOptions: options.modelOptions ?? {} };
				await lines('/chat', body, token, (part) => {
					if (part.error) {
						throw Object.assign(part.code ? vscode.LanguageModelError[part.code](part.error) : new Error(part.error), part.name ? { name: part.name } : {});
					}
					progress.report(parts[part.type](part));
				});
			},
		}),
	);
};

const parts = {
	text: (p) => new vscode.LanguageModelTextPart(p.text),
	toolCall: (p) => new vscode.LanguageModelToolCallPart(p.callId, p.name, p.input),
	usage: (p) => new vscode.LanguageModelDataPart(Buffer.from(JSON.stringify({ prompt_tokens: p.inputTokens, completion_tokens: p.outputTokens })), 'usage'),
};

function message(m) {
	return { role: m.role === vscode.LanguageModelChatMessageRole.Assistant ? 'assistant' : 'user', parts: m.content.map(content) };
}

function content(c) {
	if (c instanceof vscode.LanguageModelToolCallPart) {
		return { type: 'toolCall', callId: c.callId, name: c.name, input: c.input };
	}
	if (c instanceof vscode.LanguageModelToolResultPart) {
		return { type: 'toolResult', callId: c.callId, text: c.content.map((t) => t.value).join('') };
	}
	return c.data ? { type: 'data', mime: c.mimeType, base64: Buffer.from(c.data).toString('base64') } : { type: 'text', text: c.value };
}

// Sends a request and passes on each line of the answer as it arrives. When the
// token is cancelled, the connection is closed, which the test notices.
function lines(path, body, token, each) {
	return new Promise((resolve, reject) => {
		const request = http.request(server + path, { method: body ? 'POST' : 'GET', agent: false }, (response) => {
			let rest = '';
			response.setEncoding('utf8');
			response.on('data', (chunk) => {
				rest += chunk;
				for (let at; (at = rest.indexOf('\n')) >= 0; rest = rest.slice(at + 1)) {
					try {
						each(JSON.parse(rest.slice(0, at)));
					} catch (e) {
						request.destroy();
						reject(e);
					}
				}
			});
			response.on('end', resolve);
			response.on('error', reject);
		});
		request.on('error', reject);
		token?.onCancellationRequested(() => {
			request.destroy();
			resolve();
		});
		request.end(body && JSON.stringify(body));
	});
}
